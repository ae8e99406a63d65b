# The codecs as a filter, and the test in which Python's msgpack, protobuf and pickle judge them.

if(LMC_TESTS)
  add_executable(lmc-codec-probe ${CMAKE_SOURCE_DIR}/src/rpc/probe/codec_probe.c)
  target_link_libraries(lmc-codec-probe PRIVATE lmc_rpc lmc_pickle)
  set_target_properties(lmc-codec-probe PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME codec_judges
      COMMAND /usr/bin/python3 -m pytest -q -p no:cacheprovider
              ${CMAKE_SOURCE_DIR}/tests/wire/test_codec_judges.py)
  set_tests_properties(codec_judges PROPERTIES TIMEOUT 300
      ENVIRONMENT "LMC_CODEC_PROBE=$<TARGET_FILE:lmc-codec-probe>;PYTHONDONTWRITEBYTECODE=1")
endif()
