// Faults of the system in a program that a test starts: the preloaded library of faults.cpp.
#pragma once

#include <string>
#include <vector>

namespace sotto::test {

// The environment in which calls fail by such rules: "rename:5:/best:1" (faults.cpp).
inline std::vector<std::string> with_faults(const std::string& rules) {
  // Of a sanitizer build the preloaded library comes before the sanitizer's own.
  return {"LD_PRELOAD=" SOTTO_FAULTS_LIBRARY, "SOTTO_FAULTS=" + rules,
          "ASAN_OPTIONS=verify_asan_link_order=0"};
}

}  // namespace sotto::test
