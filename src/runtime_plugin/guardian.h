/*
 * guardian.h: the small process that owns the runtime plugins.
 *
 * The same program as the server, started with the hidden command LMC_GUARDIAN_COMMAND and
 * descriptor LMC_GUARDIAN_FD, one end of a socket pair on which it talks wire.h. It has one
 * thread and one loop that waits in poll() only. It adopts whatever its plugins leave behind.
 * When the other end closes, the server is dead, and the guardian ends every descendant within
 * a second. Signals do not stop it; the server does, by LMC_WIRE_END.
 */
#ifndef LMC_RUNTIME_PLUGIN_GUARDIAN_H
#define LMC_RUNTIME_PLUGIN_GUARDIAN_H

#define LMC_GUARDIAN_COMMAND "plugin-guardian"
#define LMC_GUARDIAN_FD 3

/* The whole life of a guardian; the result is its exit status. */
int lmc_plugin_guardian_main(void);

#endif
