#include "sotto/plan/components.h"

#include "unit/plan/planner_fixture.h"

namespace sotto::plan {
namespace {

class ComponentsTest : public PlannerTest {
 protected:
  std::vector<Components> components() const {
    return components_of(plan().best, request_, source_);
  }
  // Plans for a CPU. Only arithmetic that it has instructions for may ask for rates.
  void plan_for_cpu(bool has_bf16) {
    request_.target = {.cpu = {.bf16 = has_bf16}};
    request_.rates = [has_bf16](train::Compute compute) {
      EXPECT_TRUE(has_bf16 || compute == train::Compute::kFp32);
      return some_rates(compute);
    };
  }
};

TEST_F(ComponentsTest, SumToTheWholeInEachArithmetic) {
  const std::vector<Components> all = components();
  ASSERT_EQ(all.size(), 3);
  EXPECT_EQ(all[0].numerics, train::Numerics::kFp32);
  EXPECT_EQ(all[0].remainder, 0);
  EXPECT_GT(all[1].speed.value(), all[0].speed.value());
  EXPECT_LT(all[1].activations, all[0].activations);
  for (const Components& one : all) EXPECT_GE(one.other, 0);
}

TEST_F(ComponentsTest, DoNotMeasureWhatTheCpuLacks) {
  plan_for_cpu(/*has_bf16=*/false);
  const std::vector<Components> all = components();
  ASSERT_EQ(all.size(), 3);
  EXPECT_TRUE(all[0].speed);
  EXPECT_FALSE(all[1].speed);
  EXPECT_GT(all[1].activations, 0);
  plan_for_cpu(/*has_bf16=*/true);
  EXPECT_TRUE(components()[1].speed);
}

}  // namespace
}  // namespace sotto::plan
