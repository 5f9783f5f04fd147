// millrace order: prints an epoch's keys in the order in which a run sees them.
#include <fmt/format.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_invoke.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/base/json.h"
#include "io/base/machine.h"
#include "io/base/text.h"
#include "pipeline/epoch_length.h"
#include "pipeline/slots.h"
#include "tools/commands.h"
#include "tools/mix_words.h"
#include "tools/option_names.h"
#include "tools/option_settings.h"
#include "tools/order/epoch_order.h"
#include "tools/order/slot_text.h"
#include "tools/order_options.h"
#include "tools/program.h"
#include "tools/progress.h"
#include "tools/read_options.h"
#include "tools/shown_counts.h"
#include "tools/values.h"
#include "wds/printable_spec.h"
#include "wds/split.h"

namespace millrace::tools {
namespace {

class OrderCommand final : public Command {
 public:
  std::string name() const override { return "order"; }
  std::string summary() const override {
    return "Prints the keys in the order in which a run of train sees them";
  }
  std::string example() const override {
    return "  millrace order 'train-{000000..000019}.tar' --seed 7 --epoch 2\n"
           "  millrace order train --processes 2 --process 1 --json --limit 10\n";
  }

  std::vector<const Table*> tables() const override {
    return {&OrderOptions::table(), &FaultOptions::table()};
  }
  void declare(CLI::App& app) override {
    app_ = &app;
    read_.declare(app);
    read_.index.declare(app);
    read_.declare_join(app);
    mix_.declare(app);
    const auto positive = whole_number(1, 1 << 20);
    app.add_option("--seed", seed_, "Seed of every shuffle")->transform(seed_number());
    app.add_option("--epoch", epoch_, "Epoch, from 0")
        ->transform(whole_number(0, std::numeric_limits<std::uint32_t>::max()));
    app.add_option("--processes", topology_.processes, "Processes that share an epoch")
        ->transform(positive);
    app.add_option("--process", process_,
                   "Print only this process's samples; default: all, by slot")
        ->transform(whole_number(0, 1 << 20));
    streams_.declare(app);
    order_.declare(app);
    app.add_option("--batch-size", batch_size_,
                   "Samples per device in a step: print each slot's step, and the masked slots of "
                   "the last one; 0: samples alone")
        ->transform(whole_number(0, 1 << 20));
    app.add_option("--devices", topology_.devices, "Devices of a process")
        ->transform(whole_number(1, 1 << 20));
    app.add_flag("--digest", digest_,
                 "Print the SHA-256 of the slots and their keys alone: equal for equal orders");
    app.add_option("--diff", diff_,
                   "Print where two set-ups first differ: each is a TOML file, or options as "
                   "'streams=4 shuffle=100', beside those given")
        ->expected(2)
        ->type_name("A B");
    app.add_option("--limit", limit_, "Maximum lines to print; 0: all")->transform(whole_number(0));
    app.add_option("--threads", threads_, "Streams read at once; 0: one per core")
        ->transform(whole_number(0, kMaxThreads))
        ->check(own_of_process());
  }

  void check() override {
    Topology place = topology_;
    place.process = process_.value_or(0);
    static_cast<void>(wds::num_streams(streams_.split(1, place)));
    sets_ = read_.specs;
    order_.settle();
    mix_.check(sets_, order_.chosen(), "");
    read_.specs = MixWords::specs_of(sets_);
    read_.check();
    check_order();
    check_number();
  }

  void run(CommandContext& context) override {
    read_.network.attach(context);
    if (!diff_.empty()) return print_difference(context);
    if (order_.chosen().fill || read_.policy().on_fault == wds::OnFault::kStop)
      context.log.warn(
          "what --fill and --on-fault stop make of an epoch depends on samples that cannot be "
          "decoded, which this does not know: the order is that of an epoch without them");
    wds::FaultLedger ledger(read_.policy(), context.log);
    // Lines on the same terminal are progress enough.
    const bool is_seen = !digest_ && ::isatty(STDOUT_FILENO) == 1;
    std::optional<Progress> progress;
    const auto order = open(ledger, is_seen ? nullptr : context.terminal, context, progress);
    const std::uint64_t printed =
        digest_ ? print_digest(*order, context, progress) : print(*order, context, progress);
    if (printed == 0 && ledger.skipped() > 0)
      ledger.check_not_empty(fmt::format("epoch {}", epoch_));
  }

 private:
  void check_order() const {
    require(batch_size_ > 0 || order_.chosen().uneven == pipeline::Uneven::kPad,
            "--uneven needs --batch-size");
  }

  void check_number() const {
    if (!read_.lists.are_known(read_.specs) || order_.chosen().epochs.resampled) return;
    const std::vector<std::string> shards = read_.shards();
    read_.check_number(shards, split(), order_.chosen().shuffle.order);
  }

  /// As `train` divides these shards.
  wds::SplitOptions split() const { return streams_.split(read_.shards().size(), topology_); }

  /// The options of a pipeline with this order.
  pipeline::PipelineOptions find_options(trainer::TerminalLine* terminal,
                                         const CommandContext& context) const {
    pipeline::PipelineOptions options{.shards = read_.shards(),
                                      .mix = mix_.sets(sets_, read_.lists),
                                      .joins = read_.joined(),
                                      .split = split(),
                                      .batch = {.size = batch_size_},
                                      .faults = read_.policy(),
                                      .indexed = !read_.index.no_index,
                                      .scan = !read_.index.no_scan,
                                      .scan_cache = wds::default_scan_cache(),
                                      .opener = read_.network.opener(),
                                      .stop = context.stop,
                                      .log = context.log};
    order_.chosen().apply(seed_, options);
    options = with_shown_counts(std::move(options), terminal);
    pipeline::check_ranges(options);
    pipeline::check_repeats(options);
    if (!options.found.counts && !order_.chosen().epochs.resampled)
      wds::check_enough_shards(options.shards.size(), options.split);
    log_balance(options.found.num_indexed(), context.log);
    return options;
  }

  /// Sets `progress`, of slots, for who waits.
  std::unique_ptr<EpochOrder> open(wds::FaultLedger& ledger, trainer::TerminalLine* terminal,
                                   const CommandContext& context,
                                   std::optional<Progress>& progress) const {
    const EpochOrder::Place place{
        .epoch = epoch_, .process = process_, .limit = limit_, .threads = threads_};
    pipeline::PipelineOptions options = find_options(terminal, context);
    progress.emplace(terminal, "slots", process_ ? 0 : total_slots(options), "reading the shards");
    options.opener = progress->follow(options.opener, options.shards, Follow::kUntilTheFirst);
    return std::make_unique<EpochOrder>(options, place, ledger, context.stop);
  }

  /// 0: unknown. Masked slots are not counted, so it may be some less.
  std::uint64_t total_slots(const pipeline::PipelineOptions& options) const {
    const auto known =
        static_cast<std::uint64_t>(pipeline::global_samples_per_epoch(options).value_or(0));
    return limit_ > 0 && known > 0 ? std::min(limit_, known) : known;
  }

  // ---- --diff ----

  /// One of two set-ups, and where it stands in its epoch.
  struct Side {
    std::string name;
    CLI::App app;
    std::unique_ptr<OrderCommand> command = std::make_unique<OrderCommand>();
    std::optional<wds::FaultLedger> ledger;
    std::optional<Progress> progress;
    std::unique_ptr<EpochOrder> order;
    std::span<const OrderedSlot> slots;

    /// Null at the end. Lifetime: until the next pop().
    const OrderedSlot* front() {
      if (slots.empty()) slots = order->next();
      return slots.empty() ? nullptr : &slots.front();
    }
    void pop() { slots = slots.subspan(1); }
  };

  /// "workers=4" as "--workers=4", a file as "--config=FILE".
  static std::vector<std::string> words_of(const std::string& set_up) {
    if (set_up.ends_with(".toml")) return {"--config=" + set_up};
    std::vector<std::string> words;
    std::istringstream text(set_up);
    for (std::string word; text >> word;) words.push_back("--" + word);
    return words;
  }

  /// The options given with --diff that `words` do not override.
  std::vector<std::string> with_given(std::vector<std::string> words) const {
    std::set<std::string> said = {"diff", "config"};
    for (const std::string& word : words)
      said.insert(option_name(*app_, word.substr(2, word.find('=') - 2)));
    for (const CLI::Option* option : app_->get_options()) {
      if (option->count() == 0) continue;
      const bool flag = option->get_items_expected_max() == 0;
      const bool positional = option->get_lnames().empty();
      if (!positional && said.contains(option->get_lnames().front())) continue;
      for (const std::string& value : option->results())
        words.push_back(positional ? value
                        : flag     ? "--" + option->get_lnames().front()
                                   : "--" + option->get_lnames().front() + "=" + value);
    }
    return words;
  }

  void open_side(const std::string& set_up, Side& side, CommandContext& context) const {
    side.name = set_up;
    OrderCommand& command = *side.command;
    parse_words(command, side.app, with_given(words_of(set_up)));
    command.check();
    command.read_.network.attach(context);
    side.ledger.emplace(command.read_.policy(), context.log);
    side.order = command.open(*side.ledger, nullptr, context, side.progress);
  }

  static bool same(const OrderedSlot* a, const OrderedSlot* b) {
    if (a == nullptr || b == nullptr) return a == b;
    if (a->slot != b->slot || (a->sample == nullptr) != (b->sample == nullptr)) return false;
    return a->sample == nullptr ||
           (a->sample->key == b->sample->key && *a->sample->url == *b->sample->url);
  }

  /// A slot with its process's batch; null where the epoch has ended.
  nlohmann::ordered_json json_of(const OrderedSlot* slot) const {
    if (slot == nullptr) return nullptr;
    std::string text;
    append_json(*slot, text);
    auto json = parse_json<nlohmann::ordered_json>(text, "a slot");
    const pipeline::SlotOwner owner = pipeline::owner_of_slot(split(), slot->slot);
    json["process"] = owner.process;
    if (topology_.devices > 1) json["device"] = owner.device;
    if (batch_size_ > 0) json["batch"] = (slot->step - 1) * topology_.devices + owner.device;
    return json;
  }

  void print_difference(CommandContext& context) const {
    Side a, b;
    open_side(diff_[0], a, context);
    open_side(diff_[1], b, context);
    std::uint64_t slots = 0;
    for (; same(a.front(), b.front()); ++slots) {
      if (a.front() == nullptr || (limit_ > 0 && slots == limit_)) {
        context.out.line(context.json
                             ? nlohmann::ordered_json{{"same", true}, {"slots", slots}}.dump()
                             : "the same order: " + counted(slots, "slot"));
        return;
      }
      a.pop();
      b.pop();
    }
    const auto in_a = a.command->json_of(a.front());
    const auto in_b = b.command->json_of(b.front());
    if (context.json) {
      context.out.line(nlohmann::ordered_json{
          {"same", false},
          {"slots", slots},
          {"a", in_a},
          {"b", in_b}}.dump());
      return;
    }
    context.out.line("the same for " + counted(slots, "slot") + ", then");
    context.out.line(wds::printable_spec(a.name) + ": " +
                     (in_a.is_null() ? "the end" : in_a.dump()));
    context.out.line(wds::printable_spec(b.name) + ": " +
                     (in_b.is_null() ? "the end" : in_b.dump()));
  }

  std::span<const OrderedSlot> next(EpochOrder& order, std::uint64_t done) const {
    if (limit_ > 0 && done == limit_) return {};
    const auto slots = order.next();
    return limit_ > 0 ? slots.first(std::min<std::size_t>(slots.size(), limit_ - done)) : slots;
  }

  /// What `append` makes of the slots, piece by piece in their order; the pieces are made on all
  /// threads. Returns their number.
  std::uint64_t each_text(EpochOrder& order, Progress& progress,
                          void (*append)(const OrderedSlot& slot, std::string& text),
                          const std::function<void(std::string_view)>& use) const {
    constexpr std::size_t kPiece = 4096;
    std::uint64_t done = 0;
    std::vector<std::string> texts;
    for (auto slots = next(order, done); !slots.empty();) {
      const std::size_t pieces = (slots.size() + kPiece - 1) / kPiece;
      texts.resize(std::max(pieces, texts.size()));
      order.arena().execute([&] {
        tbb::parallel_for(std::size_t{0}, pieces, [&](std::size_t piece) {
          std::string& text = texts[piece];
          text.clear();
          const auto own = slots.subspan(piece * kPiece);
          for (const OrderedSlot& slot : own.first(std::min(kPiece, own.size())))
            append(slot, text);
        });
      });
      done += slots.size();
      progress.at(done);
      // The texts hold nothing of the slots, so the next ones are made meanwhile.
      order.arena().execute([&] {
        tbb::parallel_invoke([&] { slots = next(order, done); },
                             [&] {
                               for (std::size_t piece = 0; piece < pieces; ++piece)
                                 use(texts[piece]);
                             });
      });
    }
    return done;
  }

  std::uint64_t print(EpochOrder& order, CommandContext& context,
                      std::optional<Progress>& progress) const {
    return each_text(
        order, *progress, context.json ? append_json : append_line,
        [&](std::string_view text) { context.out.write(std::as_bytes(std::span(text))); });
  }

  std::uint64_t print_digest(EpochOrder& order, CommandContext& context,
                             std::optional<Progress>& progress) const {
    Sha256 hash;
    const std::uint64_t slots =
        each_text(order, *progress, append_identity,
                  [&](std::string_view text) { hash.update(std::as_bytes(std::span(text))); });
    progress.reset();  // its line is erased
    context.out.line(context.json
                         ? nlohmann::ordered_json{{"slots", slots}, {"sha256", hash.hex()}}.dump()
                         : fmt::format("{}  {}", hash.hex(), counted(slots, "slot")));
    return slots;
  }

  const CLI::App* app_ = nullptr;
  ReadOptions read_;
  MixWords mix_;
  std::vector<std::string> sets_;  // the specs, with their weights
  OrderOptions order_ = OrderOptions(wds::orders::kUsualBuffer);
  std::uint64_t seed_ = 0;
  StreamOptions streams_;
  Topology topology_;
  std::int64_t batch_size_ = 0;
  std::uint32_t epoch_ = 0;
  std::optional<int> process_;
  std::uint64_t limit_ = 0;
  bool digest_ = false;
  std::vector<std::string> diff_;
  int threads_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_order_command() { return std::make_unique<OrderCommand>(); }

}  // namespace millrace::tools
