# What `make install` lays down beside the programs and libraries (Programs, Client, Module): man
# pages and completion written from the option table, the unit, the Python packages, documents.
include(GNUInstallDirs)

add_executable(lmcached-manual src/manual/main.c)
target_link_libraries(lmcached-manual PRIVATE lmc_cli)
set_target_properties(lmcached-manual PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/manual)
set(written "")
foreach(page IN ITEMS server:lmcached-server.8 program:lmcached.1 bash:lmcached.bash)
  string(REPLACE ":" ";" page ${page})
  list(GET page 0 what)
  list(GET page 1 file)
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/manual/${file}
      COMMAND lmcached-manual ${what} > ${CMAKE_BINARY_DIR}/manual/${file}
      DEPENDS lmcached-manual VERBATIM)
  list(APPEND written ${CMAKE_BINARY_DIR}/manual/${file})
endforeach()
add_custom_target(manual ALL DEPENDS ${written})

set(manual ${CMAKE_BINARY_DIR}/manual)
install(FILES ${manual}/lmcached.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${manual}/lmcached-server.8 DESTINATION ${CMAKE_INSTALL_MANDIR}/man8)
foreach(name IN ITEMS lmcached lmcache) # bash looks a completion up by the name of the command
  install(FILES ${manual}/lmcached.bash RENAME ${name}
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endforeach()

configure_file(packaging/systemd/lmcached.service.in lmcached.service @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/lmcached.service DESTINATION lib/systemd/system)
install(FILES packaging/systemd/lmcached.sysusers RENAME lmcached.conf DESTINATION lib/sysusers.d)

# In a directory of their own, where the program looks for them; nothing of the system is shadowed.
install(DIRECTORY python/lmcached python/lmcache DESTINATION lib/lmcached/python
        FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed")
# With this on PYTHONPATH, packages that depend on lmcache install without it and without torch.
install(DIRECTORY python/lmcache-0.99.0.dist-info DESTINATION lib/lmcached/python)

install(FILES README.md LICENSE SECURITY.md TYPE DOC)
install(FILES python/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/python)
install(FILES bench/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/bench)
install(DIRECTORY docs examples TYPE DOC PATTERN "*.so" EXCLUDE PATTERN "__pycache__" EXCLUDE)
