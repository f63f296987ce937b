// The records of metrics.jsonl as steps, evaluations and events of a run.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "sotto/report/run_content.h"

namespace sotto::report {

// Adds the records to the run; of a step that was repeated after a crash the last record counts.
// Returns the number of records without the expected form, which are left out; kinds that this
// version does not know are ignored.
int64_t add_records(const std::vector<nlohmann::json>& records, RunContent& run);

}  // namespace sotto::report
