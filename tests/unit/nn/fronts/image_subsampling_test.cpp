// Subsampling over time and mel bins, against PyTorch's convolutions in double precision, one
// utterance at a time.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/device/torch_memory.h"
#include "sotto/nn/fronts/image_subsampling.h"
#include "support/thrown.h"
#include "support/tolerance.h"

namespace sotto::nn {
namespace {

using kernels::Packing;
using test::relative_error;

constexpr double kImageTolerance = 1e-5;
constexpr int64_t kImageWidth = 6;

// Shorter than a window of each stage, and lengths that leave each remainder by 8.
const std::vector<int64_t> kImageLengths = {19, 1, 2, 40, 5, 33, 12, 3, 22, 7, 8, 30};

// A front end with its parameters.
struct FrontEnd {
  explicit FrontEnd(const ImageSubsamplingOptions& options,
                    const ParameterAllocation& allocation = {})
      : subsampling(store, "front", options) {
    store.allocate(allocation);
  }

  const Parameter& operator[](const std::string& name) { return *store.find("front." + name); }

  ParameterStore store;
  ImageSubsampling subsampling;
};

// Leaves of autograd in double, in the order of the store.
std::vector<at::Tensor> leaves_in_order(const ParameterStore& store) {
  std::vector<at::Tensor> leaves;
  for (const Parameter& parameter : store.parameters())
    leaves.push_back(parameter.value.to(at::kDouble).detach().clone().set_requires_grad(true));
  return leaves;
}

// The result of one utterance [T, F] by PyTorch: [ceil(T / factor), D].
at::Tensor convolved_image(const at::Tensor& x, const std::vector<at::Tensor>& leaves,
                           const ImageSubsamplingOptions& options) {
  size_t next = 0;
  const auto take = [&] { return leaves[next++]; };
  at::Tensor image = x.unsqueeze(0).unsqueeze(0);  // [1, 1, T, F]
  for (int64_t factor = 2; factor <= options.factor; factor *= 2) {
    if (options.kind == ImageSubsamplingKind::kSeparable && factor > 2) {
      const at::Tensor taps = take(), bias = take();
      image = at::conv2d(image, taps.view({-1, 1, 3, 3}), bias, 2, 1, 1, options.channels);
      const at::Tensor weight = take(), bias_of_channels = take();
      image = at::conv2d(image, weight.unsqueeze(2).unsqueeze(3), bias_of_channels);
    } else {
      const at::Tensor weight = take(), bias = take();
      const at::Tensor taps = weight.view({options.channels, 3, 3, -1}).permute({0, 3, 1, 2});
      image = at::conv2d(image, taps, bias, 2, 1);
    }
    image = at::relu(image);
  }
  const at::Tensor rows = image.squeeze(0).permute({1, 2, 0}).reshape({image.size(2), -1});
  const at::Tensor weight = take(), bias = take();
  return at::addmm(bias, rows, weight.t());
}

struct FrontEndResults {
  at::Tensor y;
  std::vector<at::Tensor> gradients;
};

FrontEndResults run_front_end(FrontEnd& front_end, const at::Tensor& x, const at::Tensor& dy,
                              const Packing& frames) {
  const std::vector<Packing> packings = front_end.subsampling.packings_from(frames);
  Tape tape;
  const Context context{.step = {}, .packing = packings.back()};
  FrontEndResults result{.y = front_end.subsampling.forward(x, packings, context, tape),
                         .gradients = {}};
  front_end.subsampling.backward(dy, packings, context, tape);
  EXPECT_EQ(tape.num_open(), 0);
  for (const Parameter& parameter : front_end.store.parameters())
    result.gradients.push_back(parameter.gradient.clone());
  front_end.store.zero_gradients();
  return result;
}

// Calls body(options) for each factor and kind.
template <class Body>
void for_each_network(Body body) {
  for (const auto& [name, kind] : kImageSubsamplingKinds) {
    for (const int64_t factor : {2, 4, 8}) {
      SCOPED_TRACE(fmt::format("{} by {}", name, factor));
      body(ImageSubsamplingOptions{
          .kind = kind, .factor = factor, .channels = 5, .num_features = 11, .width = kImageWidth});
    }
  }
}

TEST(ImageSubsampling, MatchesPyTorchOneUtteranceAtATime) {
  at::manual_seed(4);
  for_each_network([](ImageSubsamplingOptions options) {
    for (const int64_t piece : {0, 1, 3, 7}) {
      SCOPED_TRACE(fmt::format("pieces of {} frames", piece));
      options.piece_frames = piece;
      FrontEnd front_end(options);
      for (Parameter& parameter : front_end.store.parameters())
        parameter.value.add_(at::rand(parameter.value.sizes()) * 0.1);
      const Packing frames(kImageLengths, at::kCPU);
      const at::Tensor x = at::randn({frames.num_frames(), options.num_features});
      const std::vector<at::Tensor> leaves = leaves_in_order(front_end.store);
      std::vector<at::Tensor> parts;
      for (const at::Tensor& utterance : x.to(at::kDouble).split_with_sizes(kImageLengths)) {
        parts.push_back(convolved_image(utterance, leaves, options));
        EXPECT_EQ(parts.back().size(0), front_end.subsampling.num_frames(utterance.size(0)));
      }
      const at::Tensor truth = at::cat(parts);
      const at::Tensor dy = at::randn(truth.sizes());
      truth.backward(dy.to(at::kDouble));

      const FrontEndResults ours = run_front_end(front_end, x, dy, frames);
      EXPECT_LT(relative_error(ours.y, truth.detach()), kImageTolerance);
      for (size_t i = 0; i < leaves.size(); ++i) {
        EXPECT_LT(relative_error(ours.gradients[i], leaves[i].grad()), kImageTolerance)
            << front_end.store.parameters()[i].spec.name;
      }
    }
  });
}

// Small whole numbers: every product and sum is exact, so that the order of sums does not matter
// and any difference is an error.
TEST(ImageSubsampling, EveryCutIntoPiecesGivesTheSameBits) {
  at::manual_seed(5);
  for_each_network([](ImageSubsamplingOptions options) {
    const Packing frames(kImageLengths, at::kCPU);
    const auto whole_numbers = [](at::IntArrayRef sizes) {
      return at::randint(-1, 2, sizes).to(at::kFloat);
    };
    const at::Tensor x = whole_numbers({frames.num_frames(), options.num_features});
    std::vector<FrontEndResults> runs;
    for (const int64_t piece : {0, 1, 2, 5, 11, 1000}) {
      options.piece_frames = piece;
      FrontEnd front_end(options);
      at::manual_seed(6);
      for (Parameter& parameter : front_end.store.parameters())
        parameter.value.copy_(whole_numbers(parameter.value.sizes()));
      const int64_t num_rows = front_end.subsampling.packings_from(frames).back().num_frames();
      const at::Tensor dy = whole_numbers({num_rows, kImageWidth});
      runs.push_back(run_front_end(front_end, x, dy, frames));
      EXPECT_TRUE(at::equal(runs.back().y, runs.front().y)) << piece;
      EXPECT_LT(runs.back().y.abs().max().item<float>(), 0x1p20f);
      for (size_t i = 0; i < runs.front().gradients.size(); ++i) {
        EXPECT_TRUE(at::equal(runs.back().gradients[i], runs.front().gradients[i]))
            << front_end.store.parameters()[i].spec.name << " in pieces of " << piece;
        EXPECT_LT(runs.back().gradients[i].abs().max().item<float>(), 0x1p24f);
      }
    }
  });
}

// Without negative numbers nothing cancels, and rounding does not decide what ReLU lets through.
void make_positive(FrontEnd& front_end) {
  for (Parameter& parameter : front_end.store.parameters()) parameter.value.abs_().add_(0.1);
}

TEST(ImageSubsampling, EveryTypeIsCloseToFloat) {
  at::manual_seed(7);
  for_each_network([](const ImageSubsamplingOptions& options) {
    FrontEnd in_float(options);
    make_positive(in_float);
    const Packing frames(kImageLengths, at::kCPU);
    const at::Tensor x = at::rand({frames.num_frames(), options.num_features});
    const int64_t num_rows = in_float.subsampling.packings_from(frames).back().num_frames();
    const at::Tensor dy = at::rand({num_rows, kImageWidth});
    const FrontEndResults truth = run_front_end(in_float, x, dy, frames);
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      for (const at::ScalarType stored : {at::kFloat, at::kBFloat16}) {
        if (type == at::kHalf && stored == at::kBFloat16) continue;
        FrontEnd front_end(options, {.weights = stored, .gradients = stored, .small_below = 1});
        make_positive(front_end);
        const FrontEndResults ours = run_front_end(front_end, x.to(type), dy.to(type), frames);
        EXPECT_EQ(ours.y.scalar_type(), type);
        EXPECT_LT(relative_error(ours.y, truth.y), 0.03) << type;
        for (size_t i = 0; i < truth.gradients.size(); ++i) {
          EXPECT_LT(relative_error(ours.gradients[i], truth.gradients[i]), 0.03)
              << front_end.store.parameters()[i].spec.name << " in " << type;
        }
      }
    }
  });
}

TEST(ImageSubsampling, NamesItsParameters) {
  FrontEnd front_end({.factor = 4, .channels = 3, .num_features = 10, .width = 7});
  EXPECT_EQ(front_end["conv1.weight"].spec.shape, (std::vector<int64_t>{3, 9}));
  EXPECT_EQ(front_end["conv2.depthwise.weight"].spec.shape, (std::vector<int64_t>{3, 9}));
  EXPECT_EQ(front_end["conv2.pointwise.weight"].spec.shape, (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(front_end["projection.weight"].spec.shape, (std::vector<int64_t>{7, 9}));
  EXPECT_EQ(front_end["projection.bias"].spec.shape, (std::vector<int64_t>{7}));
  FrontEnd plain({.kind = ImageSubsamplingKind::kPlain, .factor = 4, .channels = 3});
  EXPECT_EQ(plain["conv2.weight"].spec.shape, (std::vector<int64_t>{3, 27}));
}

TEST(ImageSubsampling, RefusesSettingsThatMakeNoNetwork) {
  const auto message = [](const ImageSubsamplingOptions& options) {
    return test::message_of<ConfigError>([&] { FrontEnd front_end(options); });
  };
  EXPECT_NE(message({.factor = 3}).find("a factor of 3"), std::string::npos);
  EXPECT_NE(message({.factor = 3}).find("2, 4 or 8"), std::string::npos);
  EXPECT_NE(message({.factor = 1}).find("a factor of 1"), std::string::npos);
  EXPECT_NE(message({.channels = 0}).find("0 channels"), std::string::npos);
  EXPECT_NE(message({.num_features = 0}).find("0 mel bins"), std::string::npos);
  EXPECT_NE(message({.width = -1}).find("a width of -1"), std::string::npos);
  EXPECT_NE(message({.piece_frames = -1}).find("pieces of -1 frames"), std::string::npos);
}

// What forward and backward of some utterances take, without the parameters.
device::MemoryReport memory_of(const ImageSubsamplingOptions& options, at::DeviceType device,
                               const std::vector<int64_t>& lengths, at::ScalarType type) {
  const bool is_dry = device == at::kMeta;
  const auto arena = std::make_shared<device::Arena>(
      is_dry ? device::RegionKind::kNothing : device::RegionKind::kHost,
      is_dry ? device::Arena::kUnlimited : int64_t{1} << 30);
  const device::ArenaGuard guard(device, arena);
  FrontEnd front_end(options, {.device = device});
  const auto zeros = [&](at::IntArrayRef sizes) {
    at::Tensor result = at::empty(sizes, at::device(device).dtype(type));
    if (!is_dry) result.zero_();
    return result;
  };
  const std::vector<Packing> packings =
      front_end.subsampling.packings_from(Packing(lengths, device));
  const at::Tensor x = zeros({packings.front().num_frames(), options.num_features});
  const Context context{.step = {}, .packing = packings.back()};
  Tape tape;
  const at::Tensor y = front_end.subsampling.forward(x, packings, context, tape);
  front_end.subsampling.backward(y, packings, context, tape);
  return arena->report();
}

TEST(ImageSubsamplingMemory, DryEqualsMeasured) {
  for_each_network([](ImageSubsamplingOptions options) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const int64_t piece : {0, 4}) {
        options.piece_frames = piece;
        const auto dry = memory_of(options, at::kMeta, kImageLengths, type);
        const auto real = memory_of(options, at::kCPU, kImageLengths, type);
        EXPECT_EQ(dry.peak, real.peak);
        EXPECT_EQ(dry.high_water, real.high_water);
        EXPECT_EQ(dry.at_peak, real.at_peak);
        EXPECT_EQ(dry.num_reservations, real.num_reservations);
        for (const device::LibraryUse& use : real.library_calls)
          EXPECT_EQ(use.num_breaches, 0) << use.name;
      }
    }
  });
}

TEST(ImageSubsamplingMemory, AFourTimesLongerUtteranceTakesMoreForInputAndOutputOnly) {
  for_each_network([](ImageSubsamplingOptions options) {
    options.channels = 16;
    options.num_features = 80;
    options.width = 128;  // rows of y then fill whole blocks of the arena
    const int64_t bytes_per_output = options.factor * options.num_features * 4 + options.width * 4;
    const int64_t expected = (12'000 - 3'000) / options.factor * bytes_per_output;
    const int64_t peak = memory_of(options, at::kMeta, {3'000}, at::kFloat).peak;
    EXPECT_EQ(memory_of(options, at::kMeta, {12'000}, at::kFloat).peak - peak, expected);
    // Many short utterances in place of a long one: only their offsets are added.
    const std::vector<int64_t> short_ones(40, 75);
    EXPECT_LT(memory_of(options, at::kMeta, short_ones, at::kFloat).peak, peak * 1.02);
  });
}

}  // namespace
}  // namespace sotto::nn
