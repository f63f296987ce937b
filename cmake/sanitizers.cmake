# sotto_sanitizers: compile and link options of SOTTO_SANITIZE. Which source backs the arena also depends on it
# (src/sotto/device/CMakeLists.txt): with a sanitizer each block is its own allocation, so that writes past it are seen.
add_library(sotto_sanitizers INTERFACE)
if(SOTTO_SANITIZE)
  set(known address undefined thread "address,undefined")
  if(NOT SOTTO_SANITIZE IN_LIST known)
    message(FATAL_ERROR "SOTTO_SANITIZE=${SOTTO_SANITIZE}: expected one of address, undefined, thread, address,undefined")
  endif()
  set(flags -fsanitize=${SOTTO_SANITIZE} -fno-omit-frame-pointer)
  if(SOTTO_SANITIZE MATCHES undefined)
    list(APPEND flags -fno-sanitize-recover=undefined)
  endif()
  target_compile_options(sotto_sanitizers INTERFACE ${flags})
  target_link_options(sotto_sanitizers INTERFACE ${flags})
endif()
if(SOTTO_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "SOTTO_FUZZ=ON by ${CMAKE_CXX_COMPILER_ID}: expected clang, which has libFuzzer. Use the preset fuzz")
  endif()
  # Counters for the fuzzer to see which branches an input takes. The assertions see an index past a view's end that is
  # still inside of the memory behind it.
  target_compile_options(sotto_sanitizers INTERFACE -fsanitize=fuzzer-no-link)
  target_compile_definitions(sotto_sanitizers INTERFACE _GLIBCXX_ASSERTIONS)
endif()
