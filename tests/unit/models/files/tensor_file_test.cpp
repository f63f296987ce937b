#include "sotto/models/files/tensor_file.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "sotto/core/error.h"
#include "sotto/core/formats/safetensors.h"
#include "sotto/kernels/simd/split_float.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::models {
namespace {

std::vector<NamedTensor> tensors() {
  return {{"weight", at::randn({3, 5}).to(at::kBFloat16)},
          {"weight.first_moment", at::randn({3, 5})},
          {"weight.second_moment", at::randint(0, 256, {3, 5}, at::kByte)},
          {"weight.remainder", at::randint(-32768, 32768, {3, 5}, at::kShort)}};
}

TEST(TensorFile, RoundTripsBitExactly) {
  const test::TempFolder folder;
  const auto path = folder.path() / "a.safetensors";
  const std::vector<NamedTensor> written = tensors();
  write_tensors(path, written);
  const std::vector<NamedTensor> loaded = tensors();
  load_tensors(path, loaded);
  for (size_t i = 0; i < written.size(); ++i)
    EXPECT_TRUE(at::equal(loaded[i].tensor, written[i].tensor)) << written[i].name;
}

TEST(TensorFile, RefusesOtherTensorsWithoutChanges) {
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

TEST(TensorFile, RefusesTypesNotUsedInCheckpoints) {
  const test::TempFolder folder;
  EXPECT_THROW(write_tensors(folder.path() / "a.safetensors", {{"a", at::zeros({2}, at::kDouble)}}),
               InternalError);
}

// The convolution weight [2, 3 taps, 4 inputs] is stored in files as [2, 4, 3].
TEST(TensorFile, TransposesConvolutionTaps) {
  const test::TempFolder folder;
  const auto path = folder.path() / "a.safetensors";
  const at::Tensor weight = at::arange(24, at::kFloat).view({2, 12});
  const std::vector<NamedTensor> named = {
      {.name = "w", .tensor = weight, .shape = {2, 4, 3}, .taps = 3}};
  write_tensors(path, named);
  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_EQ(file.find("w")->shape, (std::vector<int64_t>{2, 4, 3}));
  const at::Tensor in_file = at::empty({2, 4, 3});
  std::memcpy(in_file.mutable_data_ptr(), file.find("w")->bytes.data(), in_file.nbytes());
  EXPECT_TRUE(at::equal(in_file, weight.view({2, 3, 4}).transpose(1, 2)));
  const std::vector<NamedTensor> loaded = {
      {.name = "w", .tensor = at::zeros({2, 12}), .shape = {2, 4, 3}, .taps = 3}};
  load_tensors(path, loaded);
  EXPECT_TRUE(at::equal(loaded[0].tensor, weight));
}

class Import : public ::testing::Test {
 protected:
  Import() {
    write_tensors(
        folder_.path() / "model.safetensors",
        {{"net.old_name", values_}, {"net.other", at::ones({2})}, {"extra.a", at::ones({1})}});
  }

  WeightFolder open() const { return WeightFolder::open(folder_.path()); }

  const test::TempFolder folder_;
  const at::Tensor values_ = at::randn({3, 5});
};

TEST_F(Import, AcceptsAliasesAndOtherTypes) {
  const at::Tensor in_bf16 = at::zeros({3, 5}, at::kBFloat16);
  const std::vector<NamedTensor> named = {
      {.name = "net.weight", .tensor = in_bf16, .aliases = {"net.old_name"}},
      {.name = "net.other", .tensor = at::zeros({2})},
      {.name = "head.weight", .tensor = at::full({4}, 7.0)}};
  const Imported imported =
      import_tensors(open(), named, {.may_lack = {"head."}, .may_leave = {"extra."}});
  EXPECT_TRUE(at::equal(in_bf16, values_.to(at::kBFloat16)));
  EXPECT_EQ(imported.lacked, std::vector<std::string>{"head.weight"});
  EXPECT_EQ(imported.left, std::vector<std::string>{"extra.a"});
  EXPECT_TRUE(at::equal(named[2].tensor, at::full({4}, 7.0)));
}

TEST_F(Import, KeepsTheBf16Remainder) {
  const at::Tensor high = at::zeros({3, 5}, at::kBFloat16), low = at::zeros({3, 5}, at::kShort);
  import_tensors(open(), {{.name = "net.old_name", .tensor = high, .remainder = low}},
                 {.may_leave = {"extra.", "net.other"}});
  for (int64_t i = 0; i < 15; ++i) {
    EXPECT_EQ(kernels::join_float({.high = high.view(-1).data_ptr<at::BFloat16>()[i].x,
                                   .low = low.view(-1).data_ptr<int16_t>()[i]}),
              values_.view(-1).data_ptr<float>()[i]);
  }
}

// The remainder has only 8 bits.
TEST_F(Import, RoundsTheBf16RemainderTo8Bits) {
  const at::Tensor high = at::zeros({3, 5}, at::kBFloat16), low = at::zeros({3, 5}, at::kByte);
  import_tensors(open(), {{.name = "net.old_name", .tensor = high, .remainder = low}},
                 {.may_leave = {"extra.", "net.other"}});
  for (int64_t i = 0; i < 15; ++i) {
    const float value = values_.view(-1).data_ptr<float>()[i];
    const float kept = kernels::join_short({.high = high.view(-1).data_ptr<at::BFloat16>()[i].x,
                                            .low = low.view(-1).data_ptr<uint8_t>()[i]});
    EXPECT_NEAR(kept, value, std::abs(value) * 0x1p-16);
  }
}

TEST_F(Import, RefusesWhatTheRulesDoNotAllow) {
  const auto refusal_of = [&](const std::vector<NamedTensor>& named, const ImportRules& rules) {
    return test::message_of<DataError>([&] { import_tensors(open(), named, rules); });
  };
  const ImportRules rules{.may_leave = {"extra.", "net.other"}};
  EXPECT_PRED2(test::contains, refusal_of({{"net.weight", at::zeros({3, 5})}}, rules),
               "net.weight [3, 5] is not in it");
  EXPECT_PRED2(test::contains, refusal_of({{"net.old_name", at::zeros({5, 3})}}, rules),
               "net.old_name is [3, 5] there and [5, 3] here");
  EXPECT_PRED2(test::contains,
               refusal_of({{"net.old_name", at::zeros({3, 5})}}, {.may_leave = {"extra."}}),
               "net.other is only in it");
}

}  // namespace
}  // namespace sotto::models
