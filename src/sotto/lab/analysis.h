// The written analysis of a comparison: sentences computed from the figures. Differences within the
// noise of two seeds are not mentioned as differences.
#pragma once

#include <string>
#include <vector>

namespace sotto::lab {

struct Comparison;

std::vector<std::string> analyse(const Comparison& comparison);

}  // namespace sotto::lab
