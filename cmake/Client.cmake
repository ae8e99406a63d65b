# liblmcached-client: the client room as a shared library that shows client.h and nothing else.
include(GNUInstallDirs)
add_library(lmcached-client SHARED $<TARGET_PROPERTY:lmc_client,SOURCES>)
target_link_libraries(lmcached-client PRIVATE lmc_flags lmc_rpc lmc_pickle lmc_base PkgConfig::ZMQ
    -Wl,--exclude-libs,ALL)
set_target_properties(lmcached-client PROPERTIES VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR})
configure_file(packaging/pkgconfig/lmcached-client.pc.in lmcached-client.pc @ONLY)
# What pkg-config finds in the build folder.
file(WRITE ${CMAKE_BINARY_DIR}/lmcached-client-uninstalled.pc
    "Name: lmcached-client\nDescription: C client of the lmcached cache server, not installed\n"
    "Version: ${PROJECT_VERSION}\nCflags: -I${CMAKE_SOURCE_DIR}/include\n"
    "Libs: -L${CMAKE_BINARY_DIR} -Wl,-rpath,${CMAKE_BINARY_DIR} -llmcached-client\n")
install(TARGETS lmcached-client LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/lmcached DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_BINARY_DIR}/lmcached-client.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
