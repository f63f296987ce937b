// Tables of one run, and of several runs side by side.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "sotto/report/data_table.h"
#include "sotto/report/run_content.h"

namespace sotto::report {

// Each may be empty, where the run has not recorded what it shows.
DataTable summary_table(const RunContent& run);
DataTable memory_table(const RunContent& run);
DataTable time_table(const RunContent& run);
DataTable padding_table(const RunContent& run);
DataTable evaluation_table(const RunContent& run);
DataTable stage_table(const RunContent& run);
DataTable event_table(const RunContent& run);
DataTable decision_table(const RunContent& run);
DataTable setting_table(const RunContent& run);
DataTable environment_table(const RunContent& run);

// The tables of one run that are not empty, in the order of its page. `has_settings`: with the
// whole configuration, which is long.
std::vector<DataTable> tables_of(const RunContent& run, bool has_settings);

// One row per run.
DataTable comparison_table(std::span<const RunContent> runs);
// The same in parts that fit a page and a terminal, and the settings that differ.
std::vector<DataTable> comparison_tables(std::span<const RunContent> runs);
// Names of the runs, made distinct by their folders where two are equal.
std::vector<std::string> distinct_names(std::span<const RunContent> runs);
// Settings whose values differ between the runs, one row per setting.
DataTable difference_table(std::span<const RunContent> runs);

// "14.2 %" or "23.1".
std::string quality_text(const RunContent& run, double quality);
// "12x real time" or "5300 tokens/s".
std::string speed_text(const RunContent& run);
Unit quality_unit(const RunContent& run);

}  // namespace sotto::report
