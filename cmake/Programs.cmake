# What is built from the rooms: the server under both of its names, later clients, tools, benchmarks.

add_executable(lmcached src/cli/main.c)
target_link_libraries(lmcached PRIVATE lmc_cli)
set_target_properties(lmcached PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

# `lmcache` is the same program under the name that users' scripts call.
add_custom_command(TARGET lmcached POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E create_symlink lmcached lmcache
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR})

include(GNUInstallDirs)
install(TARGETS lmcached RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${CMAKE_BINARY_DIR}/lmcache TYPE BIN)
