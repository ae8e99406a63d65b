# The Python host: a shared object of its own, so that the server needs no Python library. Left
# out where CPython cannot be embedded (python3-dev); the server then says so when it is asked for.

option(LMC_PYTHON_HOST "build the host for server modules in Python, if python3-dev is there" ON)
if(NOT LMC_PYTHON_HOST)
  return()
endif()
# The system's own Python: its packages are what modules are installed beside.
set(Python3_FIND_STRATEGY LOCATION)
if(NOT Python3_ROOT_DIR AND NOT Python3_EXECUTABLE AND EXISTS /usr/bin/python3)
  set(Python3_EXECUTABLE /usr/bin/python3)
endif()
find_package(Python3 3.9 QUIET COMPONENTS Interpreter Development.Embed)
if(NOT Python3_Development.Embed_FOUND)
  message(STATUS "Python host: left out; install python3-dev to build it")
  return()
endif()
message(STATUS "Python host: Python ${Python3_VERSION} at ${Python3_EXECUTABLE}")

file(GLOB pyhost_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/pyhost/*.c)
add_library(lmcached-pyhost MODULE ${pyhost_sources})
set_target_properties(lmcached-pyhost PROPERTIES PREFIX "" SUFFIX ".so"
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
target_include_directories(lmcached-pyhost SYSTEM PRIVATE ${Python3_INCLUDE_DIRS})
target_compile_definitions(lmcached-pyhost PRIVATE
    LMC_PYTHON_EXECUTABLE="${Python3_EXECUTABLE}")
# Of the server's rooms only what computes is linked; what has state comes from the server.
target_link_libraries(lmcached-pyhost PRIVATE lmc_flags lmc_rpc lmc_base Python3::Python)
if(NOT LMC_SANITIZE)
  target_link_options(lmcached-pyhost PRIVATE -Wl,-z,defs)
endif()
# In a build tree the package lmcache is found here.
add_custom_command(TARGET lmcached-pyhost POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E create_symlink ${CMAKE_SOURCE_DIR}/python lmcached-python
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR})

install(TARGETS lmcached-pyhost LIBRARY DESTINATION lib/lmcached)
