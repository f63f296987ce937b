// The files of a comparison, beside those of its results.
#pragma once

#include <filesystem>

#include "sotto/lab/comparison.h"

namespace sotto::lab {

// Writes experiment_summary.json, comparison_report.txt and report.html.
void write_comparison(const std::filesystem::path& folder, const Comparison& comparison);

}  // namespace sotto::lab
