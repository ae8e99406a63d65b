# Benchmarks: programs that print figures. `make bench` runs them (bench/README.md).

if(NOT LMC_BENCH)
  return()
endif()

function(lmc_bench name)
  cmake_parse_arguments(BENCH "" "" "SOURCES;LIBRARIES" ${ARGN})
  list(TRANSFORM BENCH_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/bench/)
  add_executable(${name} ${BENCH_SOURCES})
  target_link_libraries(${name} PRIVATE lmc_flags ${BENCH_LIBRARIES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
endfunction()

# What drives, and what the server is put beside.
lmc_bench(load SOURCES load.c load_connection.c load_plan.c LIBRARIES lmc_base PkgConfig::ZMQ)
lmc_bench(first_reply SOURCES first_reply.c LIBRARIES PkgConfig::ZMQ)
lmc_bench(echo_floor SOURCES echo_floor.c LIBRARIES lmc_base PkgConfig::ZMQ)
lmc_bench(bare_program SOURCES echo_floor.c LIBRARIES lmc_base -Wl,--no-as-needed PkgConfig::ZMQ
          PkgConfig::MICROHTTPD PkgConfig::JANSSON)

# Parts by themselves: the work of a request, the first tier, the door without the house.
lmc_bench(work_alone SOURCES work_alone.c LIBRARIES lmc_cache lmc_rpc)
lmc_bench(l1_bench SOURCES l1_bench.c LIBRARIES lmc_cache)
lmc_bench(lookup_bench SOURCES lookup_bench.c LIBRARIES lmc_cache)
lmc_bench(bare_door SOURCES bare_door.c LIBRARIES lmc_transport_zmq)

# A server module, built as any author would: with the headers and nothing else.
add_library(bench_module MODULE ${CMAKE_SOURCE_DIR}/bench/bench_module.c)
target_include_directories(bench_module PRIVATE ${CMAKE_SOURCE_DIR}/include)
set_target_properties(bench_module PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
