# A room is a folder under src/: its .c files become one static library, each NAME_test.c beside
# them one test program. A room links only the rooms it names.

set(LMC_WARNINGS -Wall -Wextra -Wpedantic -Werror -Wshadow -Wstrict-prototypes
    -Wmissing-prototypes -Wvla -Wpointer-arith -Wformat=2 -Wno-gnu-zero-variadic-macro-arguments)

add_library(lmc_flags INTERFACE)
target_compile_options(lmc_flags INTERFACE ${LMC_WARNINGS} -fvisibility=hidden
    -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
target_compile_definitions(lmc_flags INTERFACE _GNU_SOURCE LMC_MODULE_IN_TREE
    LMC_VERSION="${PROJECT_VERSION}")
target_include_directories(lmc_flags INTERFACE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
find_package(Threads REQUIRED)
target_link_libraries(lmc_flags INTERFACE Threads::Threads)
if(LMC_SANITIZE)
  target_compile_options(lmc_flags INTERFACE -fsanitize=${LMC_SANITIZE} -fno-omit-frame-pointer
      -fno-sanitize-recover=all -g)
  target_link_options(lmc_flags INTERFACE -fsanitize=${LMC_SANITIZE})
endif()

function(lmc_room path)
  cmake_parse_arguments(ROOM "" "" "DEPENDS;LIBRARIES" ${ARGN})
  string(REPLACE "/" "_" name ${path})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${path}/*.c)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.c$")
  list(FILTER tests INCLUDE REGEX "_test\\.c$")
  if(NOT sources)
    return()
  endif()
  add_library(lmc_${name} STATIC ${sources})
  target_link_libraries(lmc_${name} PUBLIC lmc_flags ${ROOM_LIBRARIES})
  foreach(room IN LISTS ROOM_DEPENDS)
    string(REPLACE "/" "_" room ${room})
    target_link_libraries(lmc_${name} PUBLIC lmc_${room})
  endforeach()
  if(LMC_TESTS)
    foreach(test IN LISTS tests)
      get_filename_component(stem ${test} NAME_WE)
      set(program ${name}_${stem})
      add_executable(${program} ${test})
      target_link_libraries(${program} PRIVATE lmc_${name} lmc_test_support)
      set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
      add_test(NAME ${program} COMMAND ${program} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
      set_tests_properties(${program} PROPERTIES TIMEOUT 300)
    endforeach()
  endif()
endfunction()
