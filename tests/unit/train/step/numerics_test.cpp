#include "sotto/train/step/numerics.h"

#include <gtest/gtest.h>

#include "sotto/core/config/config.h"
#include "sotto/core/error.h"
#include "sotto/device/device_table.h"
#include "support/thrown.h"

namespace sotto::train {
namespace {

using test::contains;
using test::message_of;

TEST(Numerics, AreRefusedIfTheDeviceLacksThem) {
  const device::Target cpu;
  const device::Target t4 = device::find_device("t4").target();
  const device::Target l4 = device::find_device("l4").target();
  EXPECT_PRED2(contains,
               message_of<ConfigError>([&] { check_arithmetic(preset_of(Numerics::kTf32), cpu); }),
               "numerics: fp32");
  EXPECT_PRED2(contains,
               message_of<ConfigError>([&] { check_arithmetic(preset_of(Numerics::kTf32), t4); }),
               "numerics: fp32");
  EXPECT_PRED2(contains, message_of<ConfigError>([&] {
                 check_arithmetic(preset_of(Numerics::kBf16Exact), t4);
               }),
               "numerics: fp16");
  for (const auto& [name, numerics] : kNumerics) check_arithmetic(preset_of(numerics), l4);
  check_arithmetic(preset_of(Numerics::kBf16Exact), cpu);
  check_arithmetic(preset_of(Numerics::kFp16), t4);
}

TEST(Numerics, ArePresetsOfParts) {
  EXPECT_EQ(preset_of(Numerics::kBf16Exact), (Arithmetic{.compute = Compute::kBf16,
                                                         .remainder_bits = 16,
                                                         .gradients = at::kFloat,
                                                         .moments = optim::Moments::kFp32}));
  EXPECT_EQ(preset_of(Numerics::kBf16Lean), (Arithmetic{.compute = Compute::kBf16,
                                                        .remainder_bits = 8,
                                                        .gradients = at::kBFloat16,
                                                        .moments = optim::Moments::k8Bit}));
  for (const auto& [name, numerics] : kNumerics)
    EXPECT_EQ(arithmetic_of(numerics, {}), preset_of(numerics)) << name;
}

struct Settings {
  Numerics numerics = Numerics::kFp32;
  PrecisionOptions precision;

  void visit(OptionVisitor& visitor) {
    visitor.choice("numerics", numerics, "", kNumerics);
    visitor.group("precision", precision, "");
  }
  Arithmetic arithmetic() const { return arithmetic_of(numerics, precision); }
};

TEST(Numerics, HavePartsThatCanBeSetSeparately) {
  const auto of = [](const std::vector<std::string>& overrides) {
    return read_overrides<Settings>(overrides).arithmetic();
  };
  Arithmetic expected = preset_of(Numerics::kBf16Exact);
  expected.moments = optim::Moments::k8Bit;
  EXPECT_EQ(of({"numerics=bf16-exact", "precision.moments=8bit"}), expected);
  expected.remainder_bits = 0;
  EXPECT_EQ(of({"numerics=bf16-exact", "precision.moments=8bit", "precision.remainder_bits=0"}),
            expected);
  expected = preset_of(Numerics::kBf16Lean);
  expected.gradients = at::kFloat;
  EXPECT_EQ(of({"numerics=bf16-lean", "precision.gradients=fp32"}), expected);
  EXPECT_EQ(of({"precision.compute=bf16"}), preset_of(Numerics::kBf16Exact));
  EXPECT_EQ(of({"precision.compute=fp16"}), preset_of(Numerics::kFp16));
  expected = {};
  expected.moments = optim::Moments::k8Bit;
  EXPECT_EQ(of({"precision.moments=8bit"}), expected);
  EXPECT_EQ(of({"numerics=bf16-lean", "precision.compute=fp32", "precision.gradients=fp32"}),
            expected);
  EXPECT_THROW(read_overrides<Settings>({"precision.remainder_bits=4"}), ConfigError);
}

TEST(Numerics, AreRefusedIfPartsConflict) {
  const auto message = [](const std::vector<std::string>& overrides) {
    const Settings settings = read_overrides<Settings>(overrides);
    return message_of<ConfigError>([&] { settings.arithmetic(); });
  };
  for (const char* numerics : {"numerics=fp32", "numerics=tf32", "numerics=fp16"}) {
    EXPECT_PRED2(contains, message({numerics, "precision.remainder_bits=8"}), "remainder_bits: 8");
    EXPECT_PRED2(contains, message({numerics, "precision.remainder_bits=16"}),
                 "numerics: bf16-exact");
    EXPECT_PRED2(contains, message({numerics, "precision.gradients=bf16"}),
                 "precision.gradients: fp32");
  }
  EXPECT_PRED2(contains, message({"numerics=bf16-lean", "precision.compute=fp32"}),
               "gradients: bf16");
}

TEST(Numerics, WithBf16GradientsAllowFewMicroBatches) {
  check_micro_batches(at::kFloat, 1'000);
  check_micro_batches(at::kBFloat16, 16);
  EXPECT_PRED2(contains, message_of<ConfigError>([] { check_micro_batches(at::kBFloat16, 17); }),
               "17 micro-batches");
}

TEST(LossScale, HalvesOnOverflowAndDoublesLater) {
  LossScale scale(preset_of(Numerics::kFp16));
  EXPECT_EQ(scale.value(), 65'536.0);
  scale.update(/*was_finite=*/false);
  EXPECT_EQ(scale.value(), 32'768.0);
  for (int64_t i = 0; i + 1 < LossScale::kStepsToDouble; ++i) scale.update(true);
  EXPECT_EQ(scale.value(), 32'768.0);

  LossScale resumed(preset_of(Numerics::kFp16));
  resumed.restore(scale.value(), scale.steps_since_change());
  for (LossScale* each : {&scale, &resumed}) {
    each->update(true);
    EXPECT_EQ(each->value(), 65'536.0);
  }
  for (int i = 0; i < 40; ++i) scale.update(false);
  EXPECT_EQ(scale.value(), LossScale::kSmallest);
}

TEST(LossScale, IsOneForOtherNumerics) {
  LossScale scale(preset_of(Numerics::kBf16Exact));
  scale.update(false);
  scale.restore(1024.0, 3);
  EXPECT_EQ(scale.value(), 1.0);
}

}  // namespace
}  // namespace sotto::train
