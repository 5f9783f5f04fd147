// millrace order: prints an epoch's keys in the order in which a run sees them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "io/base/error.h"
#include "pipeline/epoch_length.h"
#include "tools/commands.h"
#include "tools/order/epoch_order.h"
#include "tools/order_options.h"
#include "tools/read_options.h"
#include "tools/values.h"
#include "wds/split.h"

namespace millrace::tools {
namespace {

class OrderCommand final : public Command {
 public:
  std::string name() const override { return "order"; }
  std::string summary() const override { return "Prints the keys in the order a run sees them"; }
  std::string example() const override {
    return "  millrace order 'train-{000000..000019}.tar' --seed 7 --epoch 2 --shuffle 1000 "
           "--workers 4\n"
           "  millrace order train --processes 2 --process 1 --json --limit 10\n";
  }

  void declare(CLI::App& app) override {
    read_.declare(app);
    read_.declare_index(app);
    const auto positive = whole_number(1, 1 << 20);
    app.add_option("--seed", seed_, "Seed of every shuffle")->transform(seed_number());
    app.add_option("--epoch", epoch_, "Epoch, from 0")
        ->transform(whole_number(0, std::numeric_limits<std::uint32_t>::max()));
    app.add_option("--processes", split_.topology.processes, "Processes that share an epoch")
        ->transform(positive);
    app.add_option("--process", process_,
                   "Print only this process's samples; default: all, by slot")
        ->transform(whole_number(0, 1 << 20));
    app.add_option("--workers", split_.workers, "Streams a process")->transform(positive);
    app.add_option("--streams", split_.streams,
                   "Streams over all processes, a multiple of their number; 0: processes x workers")
        ->transform(whole_number(0, 1 << 20));
    order_.declare(app);
    app.add_option("--batch-size", batch_size_,
                   "Samples per device in a step: print each slot's step, and the masked slots of "
                   "the last one; 0: samples alone")
        ->transform(whole_number(0, 1 << 20));
    app.add_option("--devices", split_.topology.devices, "Devices of a process")
        ->transform(whole_number(1, 1 << 20));
    app.add_option("--limit", limit_, "Maximum lines to print; 0: all")->transform(whole_number(0));
    app.add_option("--threads", threads_, "Streams read at once; 0: one per core")
        ->transform(whole_number(0, 1024));
  }

  void check() override {
    wds::SplitOptions split = split_;
    split.topology.process = process_.value_or(0);
    static_cast<void>(wds::num_streams(split));
    read_.check();
    check_order();
    check_number();
  }

  void run(Context& context) override {
    read_.attach(context);
    const auto opener = read_.opener();
    wds::FaultLedger ledger(read_.policy(), context.log);
    EpochOrder order(find_options(context),
                     {.epoch = epoch_, .process = process_, .limit = limit_, .threads = threads_},
                     *opener, ledger, context.stop);
    std::uint64_t printed = 0;
    for (auto slots = order.next(); !slots.empty() && !is_enough(printed); slots = order.next())
      for (const OrderedSlot& slot : slots)
        if (!is_enough(printed)) printed += print(slot, context);
    if (printed == 0 && ledger.skipped() > 0)
      ledger.check_not_empty(fmt::format("epoch {}", epoch_));
  }

 private:
  bool is_enough(std::uint64_t printed) const { return limit_ > 0 && printed >= limit_; }

  void check_order() const {
    order_.check();
    require(batch_size_ > 0 || (order_.uneven == "pad" && !order_.drop_last && !order_.partial),
            "--uneven, --drop-last and --partial need --batch-size");
  }

  void check_number() const {
    if (!read_.lists_shards(read_.specs()) || order_.resampled) return;
    const std::vector<std::string> shards = read_.shards();
    read_.check_number(shards, split_, order_.wds_order());
  }

  /// Those of a pipeline.
  pipeline::PipelineOptions find_options(const Context& context) const {
    pipeline::PipelineOptions options{.shards = read_.shards(),
                                      .split = split_,
                                      .batch = {.size = batch_size_},
                                      .faults = read_.policy(),
                                      .indexed = read_.indexed(),
                                      .scan = read_.scan(),
                                      .scan_cache = ReadOptions::scan_cache(),
                                      .opener = read_.opener(),
                                      .stop = context.stop,
                                      .log = context.log};
    order_.apply(seed_, options);
    options = pipeline::with_counts(std::move(options));
    if (!options.counts && !order_.resampled)
      wds::check_enough_shards(options.shards.size(), split_);
    log_balance(num_indexes_of(options), context.log);
    return options;
  }

  static std::uint64_t print(const OrderedSlot& slot, Context& context) {
    const std::string step = slot.step > 0 ? fmt::format("{:6} ", slot.step) : std::string();
    if (context.json) {
      context.out.line(json_of(slot).dump());
    } else if (slot.sample == nullptr) {
      context.out.line(fmt::format("{:8} {}     masked", slot.slot, step));
    } else {
      context.out.line(fmt::format("{:8} {}{:4} {}  {}", slot.slot, step, slot.stream,
                                   slot.sample->key, *slot.sample->url));
    }
    return 1;
  }

  static nlohmann::ordered_json json_of(const OrderedSlot& slot) {
    nlohmann::ordered_json line = {{"slot", slot.slot}};
    if (slot.step > 0) line["step"] = slot.step;
    if (slot.sample == nullptr) {
      line["masked"] = true;
      return line;
    }
    line["stream"] = slot.stream;
    line["url"] = *slot.sample->url;
    line["key"] = slot.sample->key;
    return line;
  }

  ReadOptions read_;
  OrderOptions order_;
  std::uint64_t seed_ = 0;
  wds::SplitOptions split_;
  std::int64_t batch_size_ = 0;
  std::uint32_t epoch_ = 0;
  std::optional<int> process_;
  std::uint64_t limit_ = 0;
  int threads_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_order_command() { return std::make_unique<OrderCommand>(); }

}  // namespace millrace::tools
