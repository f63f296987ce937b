// Tensors as the fixtures of weight files describe them: name, type, shape and bytes as hexadecimal
// digits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/core/formats/safetensors.h"

namespace sotto::test {

inline constexpr std::array kTypeNames = {Named<TensorType>{"F64", TensorType::kFloat64},
                                          Named<TensorType>{"F32", TensorType::kFloat32},
                                          Named<TensorType>{"F16", TensorType::kFloat16},
                                          Named<TensorType>{"BF16", TensorType::kBFloat16},
                                          Named<TensorType>{"I64", TensorType::kInt64},
                                          Named<TensorType>{"I32", TensorType::kInt32},
                                          Named<TensorType>{"I16", TensorType::kInt16},
                                          Named<TensorType>{"U8", TensorType::kUint8},
                                          Named<TensorType>{"BOOL", TensorType::kBool}};

inline std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// A list of tensors, with their bytes.
struct TensorSamples {
  explicit TensorSamples(const nlohmann::json& tensors) {
    for (const nlohmann::json& tensor : tensors) bytes.push_back(from_hex(tensor.at("bytes")));
    for (size_t i = 0; i < bytes.size(); ++i) {
      entries.push_back({.name = tensors[i].at("name"),
                         .type = value_of(tensors[i].at("dtype").get<std::string>(), kTypeNames),
                         .shape = tensors[i].at("shape").get<std::vector<int64_t>>(),
                         .bytes = std::as_bytes(std::span(bytes[i]))});
    }
  }

  std::vector<std::string> bytes;
  std::vector<SafetensorsEntry> entries;
};

// That a reader of weights gives out these tensors and no others.
template <class File>
void expect_equal(const File& file, const TensorSamples& samples) {
  EXPECT_EQ(file.names().size(), samples.entries.size());
  for (const SafetensorsEntry& entry : samples.entries) {
    const TensorView* view = file.find(entry.name);
    ASSERT_NE(view, nullptr) << entry.name;
    EXPECT_EQ(view->type, entry.type) << entry.name;
    EXPECT_EQ(view->shape, entry.shape) << entry.name;
    EXPECT_TRUE(std::ranges::equal(view->bytes, entry.bytes)) << entry.name;
  }
}

}  // namespace sotto::test
