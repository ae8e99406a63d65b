#include "cli/cli.h"

int main(int count, char **arguments) { return lmc_cli_main(count, arguments); }
