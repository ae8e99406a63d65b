# The commit that /version and `lmcached version` show: looked up at each build, empty outside of a
# checkout unless it is given.
set(LMC_COMMIT "" CACHE STRING "commit to show, for builds outside of a checkout")

set(commit_header ${CMAKE_BINARY_DIR}/commit/lmc_commit.h)
set(write_commit ${CMAKE_COMMAND} -DGIVEN=${LMC_COMMIT} -DSOURCE=${CMAKE_SOURCE_DIR}
    -DHEADER=${commit_header} -P ${CMAKE_SOURCE_DIR}/cmake/WriteCommit.cmake)
execute_process(COMMAND ${write_commit}) # for tools that read the sources without a build
add_custom_target(lmc_commit COMMAND ${write_commit} BYPRODUCTS ${commit_header} VERBATIM)

foreach(room IN ITEMS server cli)
  add_dependencies(lmc_${room} lmc_commit)
  target_include_directories(lmc_${room} PRIVATE ${CMAKE_BINARY_DIR}/commit)
endforeach()
