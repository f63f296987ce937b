// The state of a run in other numerics: the same numbers to the bit, or a refusal.
#include "sotto/train/checkpoint/state_conversion.h"

#include <gtest/gtest.h>

#include <cstring>

#include "sotto/core/error.h"
#include "sotto/core/formats/safetensors.h"
#include "sotto/kernels/simd/split_float.h"
#include "sotto/models/wav2vec2/wav2vec2_options.h"
#include "support/checkpoints.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/training.h"

namespace sotto::train {
namespace {

using test::contains;
using test::in_numerics;
using test::make_learner;
using test::TinyModel;

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

// A parameter as the fp32 numbers that it stands for, here put together by itself.
at::Tensor as_fp32(const nn::Parameter& parameter, const at::Tensor& remainder) {
  if (parameter.value.scalar_type() == at::kFloat) return parameter.value.clone();
  at::Tensor joined = at::empty(parameter.value.sizes(), at::kFloat);
  const auto* high = parameter.value.const_data_ptr<at::BFloat16>();
  for (int64_t i = 0; i < joined.numel(); ++i) {
    float& value = joined.mutable_data_ptr<float>()[i];
    if (!remainder.defined()) {
      value = static_cast<float>(high[i]);
    } else if (remainder.scalar_type() == at::kByte) {
      value = kernels::join_short({high[i].x, remainder.const_data_ptr<uint8_t>()[i]});
    } else {
      value = kernels::join_float({high[i].x, remainder.const_data_ptr<int16_t>()[i]});
    }
  }
  return joined;
}

std::vector<at::Tensor> weights_as_fp32(Learner& learner) {
  const std::map<std::string, at::Tensor> remainders = learner.optimizer.remainders();
  std::vector<at::Tensor> weights;
  for (const nn::Parameter& parameter : learner.model->parameters().parameters()) {
    const auto found = remainders.find(parameter.spec.name);
    weights.push_back(as_fp32(parameter, found == remainders.end() ? at::Tensor() : found->second));
  }
  return weights;
}

void expect_same_weights(Learner& a, Learner& b) {
  const std::vector<at::Tensor> ours = weights_as_fp32(a), theirs = weights_as_fp32(b);
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(same_bits(ours[i], theirs[i])) << a.model->parameters().parameters()[i].spec.name;
}

void expect_same_state(const Learner& a, const Learner& b) {
  const auto ours = tensors_of(a.optimizer), theirs = tensors_of(b.optimizer);
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(same_bits(ours[i].tensor, theirs[i].tensor)) << ours[i].name;
}

void expect_same_moments(const Learner& a, const Learner& b) {
  std::map<std::string, at::Tensor> ours;
  for (const models::NamedTensor& named : tensors_of(a.optimizer)) ours[named.name] = named.tensor;
  for (const models::NamedTensor& named : tensors_of(b.optimizer)) {
    if (!named.name.ends_with("_moment")) continue;
    EXPECT_TRUE(same_bits(ours.at(named.name), named.tensor)) << named.name;
  }
}

class StateConversion : public ::testing::Test {
 protected:
  // The state of one into a new learner of the other; is_converted_ says whether it had to be.
  std::unique_ptr<Learner> carry(const TinyModel& from, Learner& learner, const TinyModel& to) {
    test::write_checkpoint(temp_.path() / "a", from, learner);
    std::unique_ptr<Learner> result = make_learner(to);
    is_converted_ = load_learner(temp_.path() / "a", *result);
    return result;
  }

  std::string refusal(const TinyModel& from, const TinyModel& to) {
    const std::unique_ptr<Learner> learner = make_learner(from, 2);
    test::write_checkpoint(temp_.path() / "a", from, *learner);
    const std::unique_ptr<Learner> target = make_learner(to);
    const std::vector<at::Tensor> before = test::weights_of(*target);
    std::string message =
        test::message_of<DataError>([&] { load_learner(temp_.path() / "a", *target); });
    EXPECT_TRUE(test::same_bits(test::weights_of(*target), before));
    return message;
  }

  test::TempFolder temp_;
  bool is_converted_ = false;
};

std::vector<TinyModel> networks() {
  return {test::trained_wav2vec2(), test::tiny_models()[2], test::tiny_models()[4]};
}

TEST_F(StateConversion, IsNotNeededForTheSameNumerics) {
  for (const TinyModel& network : networks()) {
    for (const auto& [name, numerics] : kNumerics) {
      const TinyModel tiny = in_numerics(network, numerics);
      const std::unique_ptr<Learner> learner = make_learner(tiny, 2);
      const std::unique_ptr<Learner> loaded = carry(tiny, *learner, tiny);
      EXPECT_FALSE(is_converted_);
      expect_same_weights(*loaded, *learner);
      expect_same_state(*loaded, *learner);
    }
  }
}

// A crafted file whose scales have the right shape and one byte each would be read beyond its end.
TEST_F(StateConversion, RefusesStateOfAnotherType) {
  const TinyModel lean = in_numerics(networks()[0], Numerics::kBf16Lean);
  const std::unique_ptr<Learner> learner = make_learner(lean, 2);
  for (const std::string part : {"_scales", "_moment", ".remainder"}) {
    test::write_checkpoint(temp_.path() / "a", lean, *learner);
    const auto path = temp_.path() / "a" / "optimizer.safetensors";
    const std::string bytes = test::content_of(path);
    const auto whole = temp_.write("whole.safetensors", bytes);
    const SafetensorsFile file = SafetensorsFile::open(whole);
    std::vector<SafetensorsEntry> entries;
    const std::vector<std::byte> zeros(size_t{1} << 24);
    for (const std::string& name : file.names()) {
      const TensorView& view = *file.find(name);
      const bool is_changed = name.ends_with(part);
      const auto count = view.bytes.size() / static_cast<size_t>(size_of(view.type));
      entries.push_back({.name = name,
                         .type = is_changed ? TensorType::kBool : view.type,
                         .shape = view.shape,
                         .bytes = is_changed ? std::span(zeros).first(count) : view.bytes});
    }
    write_safetensors(path, entries);
    for (const Numerics numerics : {Numerics::kBf16Lean, Numerics::kBf16Exact}) {
      const std::unique_ptr<Learner> target = make_learner(in_numerics(lean, numerics));
      EXPECT_PRED2(contains,
                   test::message_of<DataError>([&] { load_learner(temp_.path() / "a", *target); }),
                   part)
          << name_of(numerics, kNumerics);
    }
  }
}

TEST_F(StateConversion, RoundTripsFp32ThroughBf16BitExactly) {
  for (const TinyModel& network : networks()) {
    const TinyModel fp32 = in_numerics(network, Numerics::kFp32);
    const TinyModel bf16 = in_numerics(network, Numerics::kBf16Exact);
    const std::unique_ptr<Learner> first = make_learner(fp32, 3);
    const std::unique_ptr<Learner> there = carry(fp32, *first, bf16);
    EXPECT_TRUE(is_converted_);
    EXPECT_FALSE(there->optimizer.remainders().empty());
    expect_same_weights(*there, *first);
    expect_same_moments(*there, *first);
    const std::unique_ptr<Learner> back = carry(bf16, *there, fp32);
    EXPECT_TRUE(is_converted_);
    expect_same_weights(*back, *first);
    expect_same_state(*back, *first);
  }
}

TEST_F(StateConversion, RoundTripsBf16ThroughFp32BitExactly) {
  for (const TinyModel& network : networks()) {
    const TinyModel fp32 = in_numerics(network, Numerics::kFp16);  // whose weights are fp32
    const TinyModel bf16 = in_numerics(network, Numerics::kBf16Exact);
    const std::unique_ptr<Learner> first = make_learner(bf16, 3);
    const std::unique_ptr<Learner> there = carry(bf16, *first, fp32);
    expect_same_weights(*there, *first);
    const std::unique_ptr<Learner> back = carry(fp32, *there, bf16);
    expect_same_weights(*back, *first);
    expect_same_state(*back, *first);
  }
}

TEST_F(StateConversion, IsExactWithMoreBits) {
  const TinyModel lean = in_numerics(test::trained_wav2vec2(), Numerics::kBf16Lean);
  const TinyModel bare = in_numerics(test::trained_wav2vec2(), Numerics::kBf16Exact, 0);
  for (const TinyModel& from : {lean, bare}) {
    const std::unique_ptr<Learner> learner = make_learner(from, 3);
    for (const Numerics numerics : {Numerics::kFp32, Numerics::kBf16Exact}) {
      const std::unique_ptr<Learner> loaded =
          carry(from, *learner, in_numerics(test::trained_wav2vec2(), numerics));
      EXPECT_TRUE(is_converted_);
      expect_same_weights(*loaded, *learner);
    }
  }
}

// Codes are converted as the optimizer decodes them: the next step is bit-identical.
TEST_F(StateConversion, OfMomentsKeepsTheNextStep) {
  const TinyModel fp32 = in_numerics(test::trained_wav2vec2(), Numerics::kFp32);
  const TinyModel coded =
      in_numerics(test::trained_wav2vec2(), Numerics::kFp32, std::nullopt, optim::Moments::k8Bit);
  const std::unique_ptr<Learner> learner = make_learner(coded, 3);
  const std::unique_ptr<Learner> loaded = carry(coded, *learner, fp32);
  EXPECT_TRUE(is_converted_);
  test::train_steps(*learner, coded, 4, 4);
  test::train_steps(*loaded, fp32, 4, 4);
  expect_same_weights(*loaded, *learner);
}

TEST_F(StateConversion, IsRefusedIfBitsWouldBeLost) {
  const TinyModel network = test::trained_wav2vec2();
  const TinyModel fp32 = in_numerics(network, Numerics::kFp32);
  const TinyModel exact = in_numerics(network, Numerics::kBf16Exact);
  const TinyModel lean = in_numerics(network, Numerics::kBf16Lean);
  const TinyModel short_remainder = in_numerics(network, Numerics::kBf16Exact, 8);
  const TinyModel bare = in_numerics(network, Numerics::kBf16Exact, 0);
  const std::string message = refusal(fp32, lean);
  EXPECT_PRED2(contains, message, "8-bit moments cannot hold those in fp32");
  EXPECT_PRED2(contains, message, "in bf16 with 8 bits of remainder cannot hold those in fp32");
  EXPECT_PRED2(contains, message, "--init-from " + (temp_.path() / "a").string());
  EXPECT_PRED2(contains, refusal(exact, short_remainder),
               "in bf16 with 8 bits of remainder cannot hold those in bf16 with 16 bits");
  EXPECT_PRED2(contains, refusal(short_remainder, bare),
               "in bf16 without a remainder cannot hold those in bf16 with 8 bits");
  EXPECT_PRED2(contains,
               refusal(exact, in_numerics(network, Numerics::kBf16Exact, std::nullopt,
                                          optim::Moments::k8Bit)),
               "8-bit moments");
}

// Frozen weights have no remainder.
TEST_F(StateConversion, IsRefusedForFrozenWeightsInBf16) {
  TinyModel network = test::trained_wav2vec2();
  network.config.model.as<models::Wav2Vec2Options>().freeze_feature_encoder = true;
  EXPECT_PRED2(
      contains,
      refusal(in_numerics(network, Numerics::kFp32), in_numerics(network, Numerics::kBf16Exact)),
      "frozen weights in bf16 cannot hold those in fp32");
}

TEST_F(StateConversion, IsRefusedForAnotherNetwork) {
  const TinyModel network = in_numerics(test::trained_wav2vec2(), Numerics::kFp32);
  TinyModel other = network;
  other.config.model.as<models::Wav2Vec2Options>().hidden = 128;
  other.config.model.as<models::Wav2Vec2Options>().freeze_positions = true;
  const std::string message = refusal(network, other);
  EXPECT_PRED2(contains, message, "a network of a different shape");
  EXPECT_PRED2(contains, message, "intermediate_dense.weight is [64, 32] there and [128, 32] here");
}

}  // namespace
}  // namespace sotto::train
