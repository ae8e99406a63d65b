# liblmcached-client: the client room as a shared library that shows client.h and nothing else.
include(GNUInstallDirs)
add_library(lmcached-client SHARED $<TARGET_PROPERTY:lmc_client,SOURCES>)
target_link_libraries(lmcached-client PRIVATE lmc_flags lmc_rpc lmc_pickle lmc_base PkgConfig::ZMQ
    -Wl,--exclude-libs,ALL)
set_target_properties(lmcached-client PROPERTIES VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR})
configure_file(packaging/pkgconfig/lmcached-client.pc.in lmcached-client.pc @ONLY)
install(TARGETS lmcached-client LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/lmcached DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_BINARY_DIR}/lmcached-client.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
