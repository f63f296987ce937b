// Fixtures of tests/fixtures: JSON files that the scripts of tests/oracle made. Reading them needs
// no Python.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

namespace sotto::test {

// The fixture of that name. Throws InternalError if it cannot be read.
nlohmann::json read_fixture(std::string_view name);

// Where fixtures are.
std::filesystem::path fixture_folder();

// Nested lists of numbers as a tensor of doubles.
at::Tensor fixture_tensor(const nlohmann::json& values);

}  // namespace sotto::test
