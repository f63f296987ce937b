# What was configured, in a few lines.
message(STATUS "sotto ${SOTTO_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${CMAKE_SYSTEM_PROCESSOR} (${SOTTO_CPU_LEVEL})")
message(STATUS "  LibTorch   ${SOTTO_TORCH_VERSION}")
message(STATUS "  CUDA       ${SOTTO_CUDA_SUMMARY}")
message(STATUS "  audio      ${SOTTO_AUDIO_SUMMARY}")
message(STATUS "  text       ${SOTTO_TEXT_SUMMARY}")
message(STATUS "  sanitizers ${SOTTO_SANITIZE}")
message(STATUS "  tests      ${SOTTO_TESTS}")
message(STATUS "  benchmarks ${SOTTO_BENCH} (Google Benchmark found: ${benchmark_FOUND})")
