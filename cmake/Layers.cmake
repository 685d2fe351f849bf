# A module that includes a higher one fails the build, before anything is compiled.
file(GLOB_RECURSE layered CONFIGURE_DEPENDS include/*.h src/*.[ch] src/*.cu src/*.cuh workloads/*.[ch] workloads/*.cu
     tools/*.[ch]
     bench/*.[ch] examples/*.[ch] python/src/*.[ch] tests/*.[ch])
add_custom_command(
  OUTPUT ${PROJECT_BINARY_DIR}/layers.stamp
  COMMAND ${PROJECT_SOURCE_DIR}/scripts/check-layers.sh
  COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/layers.stamp
  DEPENDS ${layered} ${PROJECT_SOURCE_DIR}/scripts/check-layers.sh
  COMMENT "Checking that no module includes a higher one")
add_custom_target(check_layers ALL DEPENDS ${PROJECT_BINARY_DIR}/layers.stamp)
