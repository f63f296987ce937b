# sotto_warnings: the warnings every target of ours compiles with; errors only where asked for (CI), never for users.
add_library(sotto_warnings INTERFACE)
target_compile_options(sotto_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor;-Woverloaded-virtual;-Wvla>)
if(SOTTO_WERROR)
  target_compile_options(sotto_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
