# For authors of server modules: the header (installed with Client.cmake), pkg-config files, and the
# conformance kit. lmcached-uninstalled.pc is what pkg-config finds in the build folder.
include(GNUInstallDirs)
configure_file(packaging/pkgconfig/lmcached.pc.in lmcached.pc @ONLY)
file(WRITE ${CMAKE_BINARY_DIR}/lmcached-uninstalled.pc
    "Name: lmcached\nDescription: server modules for lmcached, from the source tree\n"
    "Version: ${PROJECT_VERSION}\nCflags: -I${CMAKE_SOURCE_DIR}/include\n")
install(FILES ${CMAKE_BINARY_DIR}/lmcached.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

add_executable(lmcached-module-test src/module_test/main.c)
target_link_libraries(lmcached-module-test PRIVATE lmc_module_test)
set_target_properties(lmcached-module-test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
install(TARGETS lmcached-module-test RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
