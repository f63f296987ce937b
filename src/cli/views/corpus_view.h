// Text and JSON of a corpus profile: `sotto profile --data`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sotto/data/import/corpus_profile.h"

namespace sotto::cli {

std::string render(const data::CorpusProfile& profile);

nlohmann::ordered_json to_json(const data::CorpusProfile& profile);

}  // namespace sotto::cli
