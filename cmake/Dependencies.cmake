# Everything comes from the distribution (make deps); nothing is fetched.

find_package(PkgConfig REQUIRED)
pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq)
# Its private requirements bring include folders that differ from one configuring to the next.
set_target_properties(PkgConfig::ZMQ PROPERTIES INTERFACE_COMPILE_OPTIONS ""
    INTERFACE_INCLUDE_DIRECTORIES "${ZMQ_INCLUDEDIR}")
pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)

# BLAKE3: the official C implementation, as a library or as the sources Debian packages.
pkg_check_modules(BLAKE3 QUIET IMPORTED_TARGET libblake3)
if(BLAKE3_FOUND)
  add_library(lmc_blake3 INTERFACE)
  target_link_libraries(lmc_blake3 INTERFACE PkgConfig::BLAKE3)
else()
  file(GLOB blake3_dirs /usr/share/cargo/registry/blake3-*/c)
  if(NOT blake3_dirs)
    message(FATAL_ERROR "BLAKE3 not found: install libblake3-dev or librust-blake3-dev (make deps)")
  endif()
  list(GET blake3_dirs 0 blake3)
  set(blake3_sources ${blake3}/blake3.c ${blake3}/blake3_dispatch.c ${blake3}/blake3_portable.c)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND blake3_sources ${blake3}/blake3_sse2_x86-64_unix.S ${blake3}/blake3_sse41_x86-64_unix.S
         ${blake3}/blake3_avx2_x86-64_unix.S ${blake3}/blake3_avx512_x86-64_unix.S)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    list(APPEND blake3_sources ${blake3}/blake3_neon.c)
  endif()
  add_library(lmc_blake3 STATIC ${blake3_sources})
  set_source_files_properties(${blake3_sources} PROPERTIES COMPILE_OPTIONS "-w")
  target_compile_options(lmc_blake3 PRIVATE -O3)
  target_include_directories(lmc_blake3 SYSTEM PUBLIC ${blake3})
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    target_compile_definitions(lmc_blake3 PRIVATE BLAKE3_USE_NEON=1)
  endif()
endif()

# Unit tests: cmocka, and allocation failures injected by the linker (tests/support).
add_library(lmc_test_support INTERFACE)
if(LMC_TESTS)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
  add_library(lmc_test_fault STATIC ${CMAKE_SOURCE_DIR}/tests/support/alloc_fault.c)
  target_link_libraries(lmc_test_fault PUBLIC lmc_flags)
  target_include_directories(lmc_test_fault PUBLIC ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(lmc_test_support INTERFACE
      LMC_GOLDEN_DIR="${CMAKE_SOURCE_DIR}/tests/golden")
  target_link_libraries(lmc_test_support INTERFACE lmc_test_fault PkgConfig::CMOCKA
      PkgConfig::JANSSON -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc
      -Wl,--wrap=aligned_alloc)
endif()
