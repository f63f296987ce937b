// Cells of the tables of a comparison.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/lab/result.h"
#include "sotto/report/data_table.h"

namespace sotto::lab {

report::DataCell text_cell(const std::string& text);
// A number for programs, and its text for people; "-" and none where there is no number.
report::DataCell number_cell(double value, const std::string& text);
report::DataCell bytes_cell(int64_t bytes);
report::DataCell digits_cell(double value);
// "1,900,885", with fewer than three digits as many as matter.
report::DataCell speed_cell(double speed);
report::DataCell count_cell(int64_t count);

// Returns the row of an experiment that was not completed: its name, why, and nothing else.
std::vector<report::DataCell> failed_row(const Result& result, const report::DataTable& table);

// Returns the value of a setting that was given or that the planner decided; the last one counts.
// "-" where there is none.
std::string value_of(const Result& result, const std::string& key);

}  // namespace sotto::lab
