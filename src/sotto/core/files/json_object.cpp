#include "sotto/core/files/json_object.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "sotto/core/files/mapped_file.h"

namespace sotto {

namespace {

constexpr size_t kMaxObjectDepth = 32;

// Checks names and depth in a separate pass. The parser's callback could check while it builds the
// value, but it visits all entries of an object at the end of each of them: the time for a header
// would be quadratic in the number of tensors.
class JsonWatch : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JsonWatch(const JsonSource& source) : source_(source) {}

  bool start_object(size_t) override { return open(); }
  bool start_array(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    refuse_file(source_.path, fmt::format("the name '{}' occurs twice in {}", name, source_.part),
                "each name once");
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  bool open() {
    keys_.emplace_back();
    if (keys_.size() <= kMaxObjectDepth) return true;
    refuse_file(source_.path,
                fmt::format("{} is nested more than {} levels deep", source_.part, kMaxObjectDepth),
                source_.expected);
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  const JsonSource& source_;
  // One set for each open object and list; lists have no keys.
  std::vector<std::unordered_set<std::string>> keys_;
};

}  // namespace

nlohmann::json parse_json_object(std::string_view text, const JsonSource& source) {
  JsonWatch watch(source);
  nlohmann::json object;
  if (nlohmann::json::sax_parse(text, &watch))
    object = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    refuse_file(source.path, fmt::format("{} is not a JSON object", source.part), source.expected);
  }
  return object;
}

std::string shown(const nlohmann::json& value) {
  constexpr size_t kMaxShown = 80;
  std::string text = value.dump();
  return text.size() <= kMaxShown ? text : text.substr(0, kMaxShown) + "...";
}

}  // namespace sotto
