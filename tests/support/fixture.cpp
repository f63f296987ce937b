#include "support/fixture.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <fstream>
#include <string>
#include <vector>

#include "sotto/core/error.h"

namespace sotto::test {

namespace {

void append(const nlohmann::json& values, std::vector<double>& flat) {
  if (!values.is_array()) return flat.push_back(values.get<double>());
  for (const nlohmann::json& item : values) append(item, flat);
}

}  // namespace

nlohmann::json read_fixture(std::string_view name) {
  const std::string path = fmt::format("{}/{}.json", SOTTO_FIXTURES, name);
  std::ifstream file(path);
  SOTTO_ASSERT(file.good(), "cannot read {}", path);
  return nlohmann::json::parse(file);
}

std::filesystem::path fixture_folder() {
  return SOTTO_FIXTURES;
}

at::Tensor fixture_tensor(const nlohmann::json& values) {
  std::vector<int64_t> sizes;
  for (const nlohmann::json* level = &values; level->is_array(); level = &level->front()) {
    sizes.push_back(static_cast<int64_t>(level->size()));
    SOTTO_ASSERT(!level->empty(), "a fixture's tensor without elements");
  }
  std::vector<double> flat;
  append(values, flat);
  return at::tensor(flat, at::kDouble).view(sizes);  // throws where rows differ in length
}

}  // namespace sotto::test
