# libFuzzer targets for everything that reads a peer's bytes: cmake -DLMC_FUZZ=ON with clang.
# Corpora come from the golden vectors: fuzz/make_corpus.py BUILD/fuzz/corpus

if(NOT LMC_FUZZ)
  return()
endif()
if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "LMC_FUZZ needs clang")
endif()
set(LMC_FUZZ_SANITIZERS address,undefined)
target_compile_options(lmc_flags INTERFACE -fsanitize=fuzzer-no-link,${LMC_FUZZ_SANITIZERS}
    -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
target_link_options(lmc_flags INTERFACE -fsanitize=${LMC_FUZZ_SANITIZERS})

function(lmc_fuzz name)
  add_executable(fuzz_${name} ${CMAKE_SOURCE_DIR}/fuzz/${name}.c)
  target_link_libraries(fuzz_${name} PRIVATE ${ARGN})
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(fuzz_${name} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz OUTPUT_NAME ${name})
endfunction()

lmc_fuzz(zmq_request lmc_rpc)
lmc_fuzz(protobuf lmc_rpc)
lmc_fuzz(pickle lmc_pickle)
