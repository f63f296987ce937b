#include "sotto/plan/plan_request.h"

namespace sotto::plan {

using train::Numerics;

std::vector<Numerics> numerics_to_try(const PlanRequest& request) {
  if (!request.open.numerics) return {request.config.numerics};
  const device::Target& target = request.target;
  if (!target.is_cuda() && !target.cpu.bf16) return {Numerics::kFp32};
  if (!target.is_cuda()) return {Numerics::kFp32, Numerics::kBf16Exact, Numerics::kBf16Lean};
  if (!target.has_bf16()) return {Numerics::kFp32, Numerics::kFp16};
  return {Numerics::kFp32, Numerics::kTf32, Numerics::kBf16Exact, Numerics::kBf16Lean};
}

std::vector<optim::StateLocation> locations_to_try(const PlanRequest& request) {
  if (!request.open.state) return {request.config.optimizer.state};
  // On a CPU, host memory is the same memory.
  if (!request.target.is_cuda()) return {optim::StateLocation::kDevice};
  return {optim::StateLocation::kDevice, optim::StateLocation::kHost};
}

}  // namespace sotto::plan
