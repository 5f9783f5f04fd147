// The requirements of the parts of every ComposedBackend: its arithmetic, reducers, updaters,
// plans. To test one, as backend_conformance.h says, with ComposedConformance and ComposedCase.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "io/base/error.h"
#include "tests/trainer/backend_conformance.h"
#include "trainer/composed_backend.h"
#include "trainer/rules/lamb.h"
#include "trainer/rules/lion.h"

namespace millrace::trainer {

struct ComposedCase {
  std::string name;
  std::function<std::unique_ptr<ComposedBackend>()> make;
};

inline void PrintTo(const ComposedCase& one, std::ostream* out) { *out << one.name; }
inline std::string composed_case_name(const ::testing::TestParamInfo<ComposedCase>& info) {
  return info.param.name;
}

/// Two layers of parameters; 512 floats, so that two ranks have some of each.
inline ParameterTable conformance_table() {
  ParameterTable table;
  table.add("b.bias", {3}, false);
  table.add("b.weight", {10, 20}, true);
  table.add("a.bias", {5}, false);
  table.add("a.weight", {13, 17}, true);
  return table;
}

/// Random values for the parameters, zeros between them.
inline std::vector<float> flat_values(const ParameterTable& table, float phase) {
  std::vector<float> values(table.padded_size());
  for (const Parameter& entry : table.entries())
    for (std::size_t i = entry.offset; i < entry.offset + entry.size; ++i)
      values[i] = std::sin(static_cast<float>(i) + phase);
  return values;
}

/// One process's buffers of a run, and its replicas' Updaters.
class UpdaterBench {
 public:
  UpdaterBench(ComposedBackend& backend, const OptimizerOptions& options, int world,
               ClipOptions clip = {})
      : backend_(backend), group_(make_thread_collectives(world)) {
    write(weights, flat_values(table, 1.0F));
    write(ema, flat_values(table, 2.0F));
    const std::size_t states_size = options.rule.make()->state_names().size();
    for (std::size_t i = 0; i < states_size; ++i) states.push_back(backend.allocate(size()));
    for (int rank = 0; rank < world; ++rank) add_rank(options, rank, clip);
  }

  std::size_t size() const { return table.padded_size(); }
  void write(const DeviceBuffer& to, const std::vector<float>& values) {
    backend_.write(values, to.span);
  }
  std::vector<float> read(const DeviceBuffer& from) {
    std::vector<float> values(from.span.size());
    backend_.read(from.span, values);
    return values;
  }
  std::vector<std::vector<float>> read_all() {
    std::vector<std::vector<float>> all{read(weights), read(ema)};
    for (const DeviceBuffer& state : states) all.push_back(read(state));
    return all;
  }

  /// A step of all ranks, each on its thread. Every rank's gradients are `values`, divided by the
  /// number of ranks, which is a power of two.
  void step(const StepUpdate& update, const std::vector<float>& values) {
    std::vector<std::vector<float>> each(ranks.size(), values);
    for (auto& own : each)
      for (float& value : own) value /= static_cast<float>(ranks.size());
    step(update, each);
  }
  void step(const StepUpdate& update, const std::vector<std::vector<float>>& gradients) {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      threads.emplace_back([&, r] {
        write(ranks[r].gradients, gradients[r]);
        ranks[r].reducer->begin();
        ranks[r].reducer->gradients_ready(size() / 2);
        ranks[r].reducer->wait();
        ranks[r].sums = {static_cast<double>(r + 1), 0.5};
        ranks[r].updater->measure(update.gradient_scale, ranks[r].sums);
        ranks[r].updater->update(update);
      });
    }
  }

  struct Rank {
    DeviceBuffer gradients, buffers, kept_buffers;
    std::unique_ptr<GradientReducer> reducer;
    std::unique_ptr<Updater> updater;
    std::vector<double> sums;
  };

  ParameterTable table = conformance_table();

 private:
  void add_rank(const OptimizerOptions& options, int rank, ClipOptions clip) {
    const auto at = static_cast<std::size_t>(rank);
    Rank own{.gradients = backend_.allocate(size()),
             .buffers = backend_.allocate(16),
             .kept_buffers = backend_.allocate(16),
             .reducer = {},
             .updater = {},
             .sums = {}};
    own.reducer = backend_.make_reducer(own.gradients.span, *group_[at], {.bucket_floats = 100});
    std::vector<DeviceSpan> spans;
    for (const DeviceBuffer& state : states) spans.push_back(state.span);
    own.updater = backend_.make_updater({.optimizer = options,
                                         .parameters = table,
                                         .clip = clip,
                                         .ema_decay = 0.75,
                                         .weights = weights.span,
                                         .states = spans,
                                         .ema = ema.span,
                                         .gradients = own.gradients.span,
                                         .buffers = own.buffers.span,
                                         .kept_buffers = own.kept_buffers.span,
                                         .owned = own.reducer->owned(),
                                         .group = *control_[at]});
    ranks.push_back(std::move(own));
  }

  ComposedBackend& backend_;
  std::vector<std::unique_ptr<Collectives>> group_;
  std::vector<std::unique_ptr<Collectives>> control_ =
      make_thread_collectives(static_cast<int>(group_.size()));

 public:
  DeviceBuffer weights = backend_.allocate(size());
  DeviceBuffer ema = backend_.allocate(size());
  std::vector<DeviceBuffer> states;
  std::vector<Rank> ranks;
};

class ComposedConformance : public ::testing::TestWithParam<ComposedCase> {
 protected:
  std::vector<float> read(DeviceSpan span) { return values_in(*backend_, span); }
  DeviceBuffer upload(const std::vector<float>& values) { return buffer_of(*backend_, values); }

  std::unique_ptr<ComposedBackend> backend_ = GetParam().make();
};

TEST_P(ComposedConformance, AddsAndClearsParts) {
  const DeviceBuffer a = upload({1, 2, 3, 4, 5});
  const DeviceBuffer b = upload({10, 20, 30, 40, 50});
  backend_->add(a.span.subspan(1, 2), b.span.subspan(3, 2));
  EXPECT_EQ((std::vector<float>{1, 42, 53, 4, 5}), read(a.span));
  backend_->set_zero(a.span.subspan(1, 3));
  EXPECT_EQ((std::vector<float>{1, 0, 0, 0, 5}), read(a.span));
}

TEST_P(ComposedConformance, AveragesAndGathersOverTheRanks) {
  auto group = make_thread_collectives(2);
  std::vector<DeviceBuffer> means;
  std::vector<DeviceBuffer> parts;
  for (int rank = 0; rank < 2; ++rank) {
    means.push_back(upload(std::vector<float>(40, static_cast<float>(1 + 2 * rank))));
    parts.push_back(upload(std::vector<float>(40, static_cast<float>(rank))));
  }
  const auto [begin, end] = group[1]->slice(40, 1);
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        backend_->average(means[rank].span, 2.0, *group[rank]);
        backend_->all_gather(parts[rank].span, *group[rank]);
      });
    }
  }
  std::vector<float> expected(40, 0.0F);
  std::fill(expected.begin() + static_cast<std::ptrdiff_t>(begin),
            expected.begin() + static_cast<std::ptrdiff_t>(end), 1.0F);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(std::vector<float>(40, 2.0F), read(means[rank].span));
    EXPECT_EQ(expected, read(parts[rank].span));
  }
}

TEST_P(ComposedConformance, EachRankOwnsRangesThatTileTheGradients) {
  UpdaterBench bench(*backend_, {}, 4);
  std::vector<int> owners(bench.size(), 0);
  for (const auto& rank : bench.ranks) {
    for (const Range& range : rank.reducer->owned()) {
      EXPECT_EQ(0U, range.begin % 16);
      for (std::size_t i = range.begin; i < range.end; ++i) ++owners[i];
    }
  }
  EXPECT_EQ(std::vector<int>(bench.size(), 1), owners);
}

/// Against the rules' own passes over the host's memory, which have PyTorch's numerics.
TEST_P(ComposedConformance, UpdatesFollowTheirRuleForAnyNumberOfRanks) {
  const std::vector<OptimizerOptions> rules{
      {.rule = Sgd{.momentum = 0}},
      {.rule = Sgd{.momentum = 0.9F, .nesterov = true, .weight_decay = 0.01F}},
      {.rule = Sgd{.momentum = 0.9F, .dampening = 0.3F}},
      {.rule = Adam{.weight_decay = 0.01F,
                    .groups = {{.parameters = "norms-biases", .rate = 0.5, .weight_decay = 0.0F}}}},
      {.rule = AdamW{.weight_decay = 0.01F}},
      {.rule = Lion{.weight_decay = 0.01F}},
      {.rule = Lars{.momentum = 0.9F, .trust = 0.1F, .weight_decay = 0.01F}},
      {.rule = Lamb{.weight_decay = 0.01F}}};
  for (const OptimizerOptions& options : rules) {
    for (const int world : {1, 2}) {
      UpdaterBench bench(*backend_, options, world);
      const Optimizer oracle(options, bench.table);
      std::vector<float> weights = bench.read(bench.weights);
      std::vector<float> ema = bench.read(bench.ema);
      std::vector<std::vector<float>> states(oracle.state_names().size(),
                                             std::vector<float>(bench.size()));
      const std::vector<std::span<float>> spans(states.begin(), states.end());
      for (int step = 1; step <= 5; ++step) {
        const auto gradients = flat_values(bench.table, 0.3F * static_cast<float>(step));
        bench.step({.lr = 0.02F, .step = step, .gradient_scale = 0.5}, gradients);
        Update update{.weights = weights,
                      .gradients = gradients,
                      .states = spans,
                      .lr = 0.02F,
                      .gradient_scale = 0.5F,
                      .step = step};
        std::vector<double> sums(oracle.num_square_sums());
        oracle.add_square_sums(update, {0, bench.size()}, sums);
        update.square_sums = sums;
        oracle.update(update, {0, bench.size()});
        for (std::size_t i = 0; i < ema.size(); ++i) ema[i] = 0.75F * ema[i] + 0.25F * weights[i];
        for (const auto& rank : bench.ranks) EXPECT_TRUE(rank.updater->was_finite());
      }
      const std::string what = text(options.rule) + " on " + std::to_string(world);
      expect_near(weights, bench.read(bench.weights), 3e-6, what + ", weights");
      expect_near(ema, bench.read(bench.ema), 3e-6, what + ", EMA");
      for (std::size_t i = 0; i < states.size(); ++i)
        expect_near(states[i], bench.read(bench.states[i]), 3e-6, what + ", state");
    }
  }
}

TEST_P(ComposedConformance, TheHostsSumsAreReducedOverTheRanksToo) {
  UpdaterBench bench(*backend_, {}, 4);
  bench.step({.lr = 0.1F}, flat_values(bench.table, 0.0F));
  for (const auto& rank : bench.ranks) EXPECT_EQ((std::vector<double>{10.0, 2.0}), rank.sums);
}

TEST_P(ComposedConformance, ClipsEachValueAndThenTheNorm) {
  for (const int world : {1, 2}) {
    UpdaterBench bench(*backend_, {.rule = Sgd{.momentum = 0}}, world,
                       {.norm = 0.5, .value = 0.25F});
    const std::vector<float> before = bench.read(bench.weights);
    const std::vector<float> gradients = flat_values(bench.table, 0.7F);
    bench.step({.lr = 1.0F, .gradient_scale = 2.0}, gradients);
    double squares = 0.0;
    const auto bounded = [](float g) {
      return std::clamp(2.0 * static_cast<double>(g), -0.25, 0.25);
    };
    for (const float g : gradients) squares += bounded(g) * bounded(g);
    std::vector<float> expected = before;
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] -= static_cast<float>(bounded(gradients[i]) * 0.5 / std::sqrt(squares));
    expect_near(expected, bench.read(bench.weights), 2e-6, "clipped");
  }
}

/// One rank's gradient suffices, and so does the loss.
TEST_P(ComposedConformance, AStepThatIsNotFiniteDoesNotChangeTheWeights) {
  const OptimizerOptions options{.rule = Adam()};
  const float infinity = std::numeric_limits<float>::infinity();
  for (const ClipOptions clip :
       {ClipOptions{}, ClipOptions{.norm = 1.0}, ClipOptions{.norm = 0.0, .value = 1.0F}}) {
    UpdaterBench bench(*backend_, options, 2, clip);
    const std::vector<float> good = flat_values(bench.table, 0.1F);
    bench.step({.lr = 0.1F, .step = 1}, good);
    for (auto& rank : bench.ranks) {
      bench.write(rank.kept_buffers, std::vector<float>(16, 7.0F));
      bench.write(rank.buffers, std::vector<float>(16, 8.0F));
    }
    const auto before = bench.read_all();
    int step = 2;
    for (const float bad : {std::nanf(""), infinity, -infinity, 0.0F}) {
      std::vector<std::vector<float>> gradients(2, good);
      gradients[1][300] += bad;
      bench.step({.lr = 0.1F, .step = step++, .is_finite = bad != 0.0F}, gradients);
      EXPECT_EQ(before, bench.read_all()) << bad;
      for (auto& rank : bench.ranks) {
        EXPECT_FALSE(rank.updater->was_finite()) << bad;
        EXPECT_EQ(std::vector<float>(16, 7.0F), bench.read(rank.buffers)) << bad;
      }
    }
    bench.step({.lr = 0.1F, .step = step}, good);
    for (auto& rank : bench.ranks) EXPECT_TRUE(rank.updater->was_finite()) << "and continues";
    EXPECT_NE(before, bench.read_all());
  }
}

TEST_P(ComposedConformance, RefusesRulesThatItCannotFollow) {
  auto group = make_thread_collectives(1);
  const ParameterTable table = conformance_table();
  for (const OptimizerOptions& options :
       {OptimizerOptions{.rule = Adam{.betas = {}}},
        OptimizerOptions{.rule = Sgd{.dampening = 0.1F, .nesterov = true}}}) {
    EXPECT_THROW(
        backend_->make_updater({.optimizer = options, .parameters = table, .group = *group[0]}),
        Error);
  }
}

/// Against the CPU's plan over the host's memory, which the layers' parity tests compare with
/// PyTorch's.
TEST_P(ComposedConformance, PlansComputeWhatTheGraphSays) {
  const GraphModel model("small", conformance_graph());
  const std::size_t size = model.parameters().padded_size();
  std::vector<float> weights(size);
  std::vector<float> gradients(size);
  std::vector<float> buffers(model.buffers().padded_size());
  model.initialise(3, weights, buffers);
  const DeviceBuffer own_weights = upload(weights);
  const DeviceBuffer own_gradients = upload(flat_values(model.parameters(), 5.0F));
  const DeviceBuffer own_buffers = upload(buffers);
  const nn::PlanOptions options{.batch_size = 4};
  const auto oracle =
      model.compile(options, {.parameters = weights, .gradients = gradients, .buffers = buffers});
  const auto plan = backend_->compile(model, options,
                                      {.parameters = own_weights.span,
                                       .gradients = own_gradients.span,
                                       .buffers = own_buffers.span});
  std::vector<float> images(4 * 8 * 8 * 3);
  for (std::size_t i = 0; i < images.size(); ++i)
    images[i] = std::cos(0.37F * static_cast<float>(i));
  const std::span<const std::byte> input = std::as_bytes(std::span(images));
  std::size_t ready = 0;
  for (nn::Plan* one : {oracle.get(), plan.get()}) {
    one->forward({&input, 1}, nn::Mode::kTrain);
    for (std::size_t i = 0; i < 20; ++i)
      one->output_gradient(0).data[i] = std::sin(static_cast<float>(i));
    ready = 0;
    one->backward([&](std::size_t n) {
      EXPECT_LT(ready, n);
      ready = n;
    });
    EXPECT_EQ(size, ready);
  }
  const auto values = [](nn::Plan& one) {
    const std::span<float> data = one.output(0).data;
    return std::vector<float>(data.begin(), data.end());
  };
  EXPECT_EQ((std::vector<std::int64_t>{4, 5}), plan->output(0).shape);
  expect_near(values(*oracle), values(*plan), 2e-5, "outputs in training");
  expect_near(gradients, read(own_gradients.span), 1e-4, "gradients");
  expect_near(buffers, read(own_buffers.span), 1e-5, "running statistics");

  for (float& weight : weights) weight *= 0.5F;
  oracle->parameters_changed();
  oracle->forward({&input, 1}, nn::Mode::kEvaluate);
  backend_->write(std::vector<float>(size, NAN), own_weights.span);
  plan->parameters_changed();
  std::size_t written = size;
  plan->forward({&input, 1}, nn::Mode::kEvaluate, [&](std::size_t needed) {
    ASSERT_LT(needed, written);
    backend_->write(std::span(weights).subspan(needed, written - needed),
                    own_weights.span.subspan(needed, written - needed));
    written = needed;
  });
  expect_near(values(*oracle), values(*plan), 2e-5, "outputs of weights that came when needed");
}

TEST_P(ComposedConformance, RefusesBuffersThatDoNotFitTheModel) {
  const GraphModel model("small", conformance_graph());
  const DeviceBuffer weights = backend_->allocate(model.parameters().padded_size());
  const DeviceBuffer buffers = backend_->allocate(model.buffers().padded_size());
  EXPECT_THROW(backend_->compile(model, {}, {.parameters = weights.span}), Error);
  EXPECT_THROW(backend_->compile(model, {.batch_size = 0},
                                 {.parameters = weights.span, .buffers = buffers.span}),
               Error);
  EXPECT_NO_THROW(
      backend_->compile(model, {}, {.parameters = weights.span, .buffers = buffers.span}));
}

}  // namespace millrace::trainer
