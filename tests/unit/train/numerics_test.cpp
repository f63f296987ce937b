#include "sotto/train/numerics.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/device/device_table.h"
#include "support/thrown.h"

namespace sotto::train {
namespace {

using test::contains;
using test::message_of;

TEST(Numerics, AreRefusedWhereTheDeviceDoesNotHaveThem) {
  const device::Target cpu;
  const device::Target t4 = device::find_device("t4").target();
  const device::Target l4 = device::find_device("l4").target();
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { check_numerics(Numerics::kTf32, cpu); }),
               "numerics: fp32");
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { check_numerics(Numerics::kTf32, t4); }),
               "numerics: fp32");
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { check_numerics(Numerics::kBf16Exact, t4); }),
               "numerics: fp16");
  for (const auto& [name, numerics] : kNumerics) check_numerics(numerics, l4);
  check_numerics(Numerics::kBf16Exact, cpu);
  check_numerics(Numerics::kFp16, t4);
}

TEST(LossScale, HalvesAtAnOverflowAndDoublesAfterLong) {
  LossScale scale(Numerics::kFp16);
  EXPECT_EQ(scale.value(), 65'536.0);
  scale.update(/*was_finite=*/false);
  EXPECT_EQ(scale.value(), 32'768.0);
  for (int64_t i = 0; i + 1 < LossScale::kStepsToDouble; ++i) scale.update(true);
  EXPECT_EQ(scale.value(), 32'768.0);

  LossScale resumed(Numerics::kFp16);
  resumed.restore(scale.value(), scale.steps_since_change());
  for (LossScale* each : {&scale, &resumed}) {
    each->update(true);
    EXPECT_EQ(each->value(), 65'536.0);
  }
  for (int i = 0; i < 40; ++i) scale.update(false);
  EXPECT_EQ(scale.value(), 1.0) << "below 1 it would help nobody";
}

TEST(LossScale, IsOneForOtherNumerics) {
  LossScale scale(Numerics::kBf16Exact);
  scale.update(false);
  scale.restore(1024.0, 3);
  EXPECT_EQ(scale.value(), 1.0);
}

}  // namespace
}  // namespace sotto::train
