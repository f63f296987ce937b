#include "sotto/train/tensor_file.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::train {
namespace {

std::vector<NamedTensor> tensors() {
  return {{"weight", at::randn({3, 5}).to(at::kBFloat16)},
          {"weight.first_moment", at::randn({3, 5})},
          {"weight.remainder", at::randint(-32768, 32768, {3, 5}, at::kShort)}};
}

TEST(TensorFile, LoadsWhatWasWrittenToTheBit) {
  const test::TempFolder folder;
  const auto path = folder.path() / "a.safetensors";
  const std::vector<NamedTensor> written = tensors();
  write_tensors(path, written);
  const std::vector<NamedTensor> loaded = tensors();
  load_tensors(path, loaded);
  for (size_t i = 0; i < written.size(); ++i)
    EXPECT_TRUE(at::equal(loaded[i].tensor, written[i].tensor)) << written[i].name;
}

TEST(TensorFile, RefusesOtherTensorsAndChangesNothing) {
  const test::TempFolder folder;
  const auto path = folder.path() / "a.safetensors";
  write_tensors(path, tensors());
  const auto refusal_of = [&](const std::vector<NamedTensor>& others) {
    std::vector<at::Tensor> before;
    for (const NamedTensor& other : others) before.push_back(other.tensor.clone());
    std::string message = test::message_of<DataError>([&] { load_tensors(path, others); });
    for (size_t i = 0; i < others.size(); ++i)
      EXPECT_TRUE(at::equal(others[i].tensor, before[i])) << others[i].name;
    return message;
  };
  std::vector<NamedTensor> others = tensors();
  others[0].tensor = at::zeros({3, 5});
  EXPECT_PRED2(test::contains, refusal_of(others), "weight is not fp32");
  others[0].tensor = at::zeros({5, 3}, at::kBFloat16);
  EXPECT_PRED2(test::contains, refusal_of(others), "weight is [3, 5] there and [5, 3] here");
  others = tensors();
  others.pop_back();
  EXPECT_PRED2(test::contains, refusal_of(others), "weight.remainder is only in it");
  others[1].name = "other";
  EXPECT_PRED2(test::contains, refusal_of(others), "other [3, 5] is not in it");
}

TEST(TensorFile, RefusesTypesThatNoCheckpointHas) {
  const test::TempFolder folder;
  EXPECT_THROW(write_tensors(folder.path() / "a.safetensors", {{"a", at::zeros({2}, at::kDouble)}}),
               InternalError);
}

}  // namespace
}  // namespace sotto::train
