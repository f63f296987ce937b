#include "sotto/core/json_object.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "sotto/core/mapped_file.h"

namespace sotto {

namespace {
constexpr size_t kMaxObjectDepth = 32;
}

nlohmann::json parse_json_object(std::string_view text, const JsonSource& source) {
  using Event = nlohmann::json::parse_event_t;
  // One for each object and list that is open; lists have no keys.
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int, Event event, nlohmann::json& value) {
    if (event == Event::object_start || event == Event::array_start) keys.emplace_back();
    if (event == Event::object_end || event == Event::array_end) keys.pop_back();
    if (keys.size() > kMaxObjectDepth) {
      refuse_file(source.path,
                  fmt::format("{} is nested more than {} deep", source.part, kMaxObjectDepth),
                  source.expected);
    }
    if (event == Event::key && !keys.back().insert(value).second) {
      refuse_file(
          source.path,
          fmt::format("the name '{}' occurs twice in {}", value.get<std::string>(), source.part),
          "each name once");
    }
    return true;
  };
  nlohmann::json object = nlohmann::json::parse(text, watch, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    refuse_file(source.path, fmt::format("{} is no JSON object", source.part), source.expected);
  }
  return object;
}

std::string shown(const nlohmann::json& value) {
  constexpr size_t kMaxShown = 80;
  std::string text = value.dump();
  return text.size() <= kMaxShown ? text : text.substr(0, kMaxShown) + "...";
}

}  // namespace sotto
