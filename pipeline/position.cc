#include "pipeline/position.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "io/base/error.h"
#include "io/base/fault_text.h"
#include "io/base/json.h"
#include "io/base/text.h"
#include "pipeline/detail/packed_refs.h"
#include "wds/shuffle_draws.h"

namespace millrace::pipeline {
namespace {

using Json = nlohmann::json;

using detail::kMaxOffset;

constexpr std::int64_t kMaxSlots = std::int64_t{1} << 53;
constexpr int kMaxProcesses = 1 << 20;
constexpr std::uint64_t kMaxShards = std::uint64_t{1} << 32U;

/// The number of a process's i-th stream.
std::size_t stream_number(std::size_t i, int process, int processes, int stripe) {
  const auto width = static_cast<std::size_t>(stripe);
  return i / width * width * static_cast<std::size_t>(processes) +
         static_cast<std::size_t>(process) * width + i % width;
}

/// The value of an option that fixes the order; 0 if it is not known.
std::uint64_t order_value(const Position& position, std::string_view name) {
  std::uint64_t value = 0;
  if (!position.order) return value;
  const auto found =
      std::ranges::find(*position.order, name, &std::pair<std::string, std::string>::first);
  if (found != position.order->end())
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  return value;
}

/// What the buffer of the i-th stream draws by, but for how many samples came and went.
wds::ShuffleDraws draws_of(const Position& position, std::size_t i) {
  const std::size_t stream =
      stream_number(i, position.process, position.processes, position.stripe);
  return {.seed = order_value(position, "shuffle-seed"),
          .epoch = position.epoch,
          .stream = static_cast<std::uint32_t>(stream),
          .buffer_samples = order_value(position, "shuffle")};
}

/// If there is anything.
void add_lost(const wds::LostSamples& lost, Json& value) {
  if (lost.samples > 0) value["lost"] = lost.samples;
  if (lost.more) value["lost_more"] = true;
  if (lost.shards != (lost.more ? 1U : 0U)) value["lost_shards"] = lost.shards;
  if (lost.unselected > 0) value["unselected"] = lost.unselected;
}

Json to_value(const wds::StreamPosition& position, wds::ShuffleDraws draws) {
  draws.earlier = position.earlier_passes;
  draws.in = position.samples_in - position.earlier_passes;
  draws.out = position.samples_out - position.earlier_passes;
  Json value = {{"samples_out", position.samples_out},
                {"samples_in", position.samples_in},
                {"shard", position.shard},
                {"offset", position.offset},
                {"earlier_passes", position.earlier_passes},
                {"buffered", detail::packed_refs(position.buffered, draws)}};
  add_lost(position.lost, value);
  for (const wds::StreamPosition& part : position.parts)
    value["parts"].push_back(to_value(part, draws));
  if (position.open.empty()) return value;
  value["turn"] = position.turn;
  for (const auto& one : position.open) value["open"].push_back({one.shard, one.offset});
  return value;
}

Json to_value(const Position::Stream& where, const wds::ShuffleDraws& draws) {
  const Position::Stream stream = where.exact();
  Json value = {{"skip", stream.skip}, {"ended", stream.ended}};
  add_lost(stream.lost, value);
  if (stream.start) value["start"] = to_value(*stream.start, draws);
  return value;
}

[[noreturn]] void corrupt(const std::string& what) {
  throw Error(ErrorCode::kCorrupt, "a pipeline's position: " + what);
}

template <typename Integer>
Integer number(const Json& value, const char* name, Integer least = 0,
               Integer most = std::numeric_limits<Integer>::max()) {
  return json_integer<Integer>(value, std::string("a pipeline's position: ") + name, least, most);
}

wds::LostSamples lost_from(const Json& value) {
  wds::LostSamples lost;
  if (value.contains("lost")) lost.samples = number<std::uint64_t>(value.at("lost"), "lost");
  if (value.contains("lost_more")) lost.more = value.at("lost_more").get<bool>();
  lost.shards = lost.more ? 1U : 0U;  // what earlier versions took it for
  if (value.contains("lost_shards"))
    lost.shards = number<std::uint64_t>(value.at("lost_shards"), "lost_shards", 0, kMaxShards);
  if (value.contains("unselected"))
    lost.unselected = number<std::uint64_t>(value.at("unselected"), "unselected", 0, lost.samples);
  return lost;
}

void take_open(const Json& value, wds::StreamPosition& position) {
  for (const Json& one : value.at("open"))
    position.open.push_back({number<std::uint32_t>(one.at(0), "a shard's number"),
                             number<std::uint64_t>(one.at(1), "an offset", 0, kMaxOffset)});
  position.turn = number<std::uint32_t>(value.at("turn"), "turn");
}

wds::StreamPosition stream_position_from(const Json& value) {
  wds::StreamPosition position{
      .samples_out = number<std::uint64_t>(value.at("samples_out"), "samples_out"),
      .samples_in = number<std::uint64_t>(value.at("samples_in"), "samples_in"),
      .shard = number<std::uint32_t>(value.at("shard"), "shard"),
      .offset = number<std::uint64_t>(value.at("offset"), "offset", 0, kMaxOffset),
      .lost = lost_from(value),
      .buffered = detail::unpacked_refs(value.at("buffered"))};
  if (value.contains("open")) take_open(value, position);
  if (value.contains("earlier_passes"))
    position.earlier_passes = number<std::uint64_t>(value.at("earlier_passes"), "earlier_passes");
  if (position.earlier_passes > std::min(position.samples_in, position.samples_out))
    corrupt("more samples in its earlier passes than in all");
  return position;
}

/// With the positions of a mix's sets, which have no sets of their own.
wds::StreamPosition whole_position_from(const Json& value) {
  wds::StreamPosition position = stream_position_from(value);
  if (!value.contains("parts")) return position;
  std::uint64_t samples = 0;
  for (const Json& part : value.at("parts")) {
    position.parts.push_back(stream_position_from(part));
    samples += position.parts.back().samples_out;
  }
  if (samples != position.samples_out) corrupt("a mix's sets do not add up");
  return position;
}

Position::Stream stream_from(const Json& value) {
  Position::Stream stream;
  stream.skip = number<std::uint64_t>(value.at("skip"), "skip");
  stream.ended = value.at("ended").get<bool>();
  stream.lost = lost_from(value);
  if (value.contains("start")) {
    stream.start =
        std::make_shared<const wds::StreamPosition>(whole_position_from(value.at("start")));
  }
  return stream;
}

std::vector<std::uint32_t> turns_from(const Json& value, std::size_t streams) {
  if (!value.is_array() || value.empty()) corrupt("turns is not a list");
  if (value.size() > std::max<std::size_t>(1, streams)) corrupt("more turns than streams");
  std::vector<std::uint32_t> turns;
  for (const Json& turn : value) turns.push_back(number<std::uint32_t>(turn, "turns"));
  const std::size_t own = streams / turns.size();
  if (own * turns.size() != streams) corrupt("turns do not divide the streams");
  const bool fit = std::ranges::all_of(
      turns, [&](std::uint32_t turn) { return turn < std::max<std::size_t>(1, own); });
  if (!fit) corrupt("its next stream does not exist");
  return turns;
}

Position::Round round_from(const Json& value) {
  Position::Round round;
  round.devices = number<std::int64_t>(value.at("devices"), "devices", 1, kMaxProcesses);
  round.taken = number<std::int64_t>(value.at("taken"), "taken", 0, round.devices - 1);
  round.batch_size = number<std::int64_t>(value.at("batch_size"), "batch_size", 1, kMaxSlots);
  return round;
}

Position::Fill fill_from(const Json& value) {
  Position::Fill fill;
  fill.passed = number<std::int64_t>(value.at("passed"), "passed", 0, kMaxSlots);
  fill.batches = number<std::int64_t>(value.at("batches"), "batches", 0, kMaxSlots);
  fill.devices = number<std::int64_t>(value.at("devices"), "devices", 1, kMaxProcesses);
  fill.batch_size = number<std::int64_t>(value.at("batch_size"), "batch_size", 1, kMaxSlots);
  return fill;
}

std::vector<Position::Fill> fills_from(const Json& value, std::size_t streams) {
  if (!value.is_array() || value.size() > streams) corrupt("fills is not a list of its processes'");
  std::vector<Position::Fill> fills;
  for (const Json& one : value) fills.push_back(fill_from(one));
  return fills;
}

Position::Losses losses_from(const Json& value) {
  Position::Losses losses;
  for (const auto& [name, samples] : value.items()) {
    const auto code = error_code_of(name);
    if (!code) corrupt("undecoded has no code '" + printable(name) + "'");
    losses[*code] = number<std::uint64_t>(samples, "undecoded", 0, std::uint64_t{kMaxSlots});
  }
  return losses;
}

std::shared_ptr<const std::vector<std::pair<std::string, std::string>>> order_from(
    const Json& value) {
  std::vector<std::pair<std::string, std::string>> order;
  for (const auto& [name, one] : value.items()) order.emplace_back(name, one.get<std::string>());
  return std::make_shared<const decltype(order)>(std::move(order));
}

std::string digest_from(const Json& value) {
  constexpr std::size_t kMostDigits = 64;
  std::string digest = value.get<std::string>();
  if (digest.size() > kMostDigits) corrupt("a digest of its contents is too long");
  return digest;
}

Position::Contents contents_from(const Json& value) {
  Position::Contents contents{.pieces = digest_from(value.at("pieces"))};
  if (value.contains("indexes")) contents.indexes = digest_from(value.at("indexes"));
  return contents;
}

Json to_value(const Position::Contents& contents) {
  Json value = {{"pieces", contents.pieces}};
  if (!contents.indexes.empty()) value["indexes"] = contents.indexes;
  return value;
}

Position position_from(const Json& value) {
  Position position;
  position.epoch = number<std::uint32_t>(value.at("epoch"), "epoch", 0, kMaxEpoch);
  position.processes = number<int>(value.at("processes"), "processes", 1, kMaxProcesses);
  position.process = number<int>(value.at("process"), "process", 0, position.processes - 1);
  if (value.contains("stripe"))
    position.stripe = number<int>(value.at("stripe"), "stripe", 1, kMaxProcesses);
  if (value.contains("seed_processes"))
    position.seed_processes =
        number<int>(value.at("seed_processes"), "seed_processes", 1, kMaxProcesses);
  position.slots = number<std::int64_t>(value.at("slots"), "slots", 0, kMaxSlots);
  position.fingerprint = number<std::uint64_t>(value.at("fingerprint"), "fingerprint");
  for (const Json& stream : value.at("streams")) position.streams.push_back(stream_from(stream));
  position.turns = turns_from(value.at("turns"), position.streams.size());
  const std::size_t stripes =
      position.turns.size() * static_cast<std::size_t>(std::max(1, position.stripe));
  if (position.streams.size() % stripes != 0) corrupt("its stripe does not divide the streams");
  if (value.contains("round")) position.round = round_from(value.at("round"));
  if (value.contains("fills"))
    position.fills = fills_from(value.at("fills"), position.streams.size());
  if (value.contains("undecoded")) position.undecoded = losses_from(value.at("undecoded"));
  if (value.contains("order")) position.order = order_from(value.at("order"));
  if (value.contains("contents")) position.contents = contents_from(value.at("contents"));
  return position;
}

bool none_ended(const Position& position) {
  return std::ranges::none_of(position.streams, &Position::Stream::ended);
}

/// Whether slot j was stream j mod S's until here, and the next one will be.
bool is_in_step(const Position& position) {
  if (position.all_ended()) return true;
  if (position.turns.size() > 1) return false;
  return none_ended(position) &&
         position.slots % static_cast<std::int64_t>(position.streams.size()) ==
             position.turns.front();
}

void check_part(const Position& part, const Position& of, int process, int processes) {
  const bool fits = part.epoch == of.epoch && part.fingerprint == of.fingerprint &&
                    part.seed_processes == of.seed_processes && part.process == process &&
                    part.processes == processes && part.stripe == of.stripe &&
                    part.round.taken == of.round.taken &&
                    part.streams.size() == of.streams.size() && part.turns.size() == 1;
  require(fits, fmt::format("position {} of {} does not belong to the others", process, processes));
}

/// The position of a process that has taken no batch.
Position untouched(const Position& like, int process) {
  Position part = like;
  part.process = process;
  part.slots = 0;
  part.turns = {0};
  part.fills = {};
  part.undecoded = {};
  part.streams.assign(like.streams.size(), {});
  return part;
}

/// Each process's part, whole; those that ran out are at their streams' ends.
std::vector<Position> whole_parts(std::span<const Position> given, const Position& most) {
  std::vector<Position> parts;
  const auto processes = static_cast<int>(given.size());
  for (int process = 0; process < processes; ++process) {
    Position part = given[static_cast<std::size_t>(process)];
    const bool may_be_fewer = part.streams.empty() || part.all_ended();
    if (part.streams.empty()) part = untouched(most, process);
    check_part(part, most, process, processes);
    if (part.slots < most.slots) {
      require(may_be_fewer, fmt::format("the positions are of different steps: process {} after {} "
                                        "slots of epoch {}, another after {}",
                                        process, part.slots, part.epoch, most.slots));
      for (Position::Stream& stream : part.streams) stream.ended = true;
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<std::size_t> divisors(std::size_t number) {
  std::vector<std::size_t> found;
  for (std::size_t i = 1; i <= number; ++i)
    if (number % i == 0) found.push_back(i);
  return found;
}

/// One of each process, if any has one.
std::vector<Position::Fill> joined_fills(const std::vector<Position>& parts) {
  std::vector<Position::Fill> fills;
  bool any = false;
  for (const Position& part : parts) {
    fills.push_back(part.fills.empty() ? Position::Fill{.batch_size = 1} : part.fills.front());
    any = any || !fills.back().is_none();
  }
  return any ? fills : std::vector<Position::Fill>{};
}

std::string whose(int process, int processes, int stripe) {
  return fmt::format("process {} of {}", process, processes) +
         (stripe > 1 ? fmt::format(" with {} devices each", stripe) : "");
}

/// A process's part, which with the others' makes the whole.
Position::Losses own_losses(const Position& whole, const Topology& topology) {
  Position::Losses own;
  const auto processes = static_cast<std::uint64_t>(topology.processes);
  const auto process = static_cast<std::uint64_t>(topology.process);
  for (const auto& [code, samples] : whole.undecoded) {
    const std::uint64_t part = samples / processes + (process < samples % processes ? 1 : 0);
    if (part > 0) own[code] = part;
  }
  return own;
}

/// What batches of a process took of those behind them.
std::vector<Position::Fill> own_fill(const Position& whole, const Position& own) {
  if (whole.fills.empty()) return {};
  require(whole.fills.size() == static_cast<std::size_t>(own.processes) &&
              (own.processes == 1 || whole.stripe == own.stripe),
          fmt::format("faults cost samples that later ones replace, and only the {} processes that "
                      "read them continue this epoch{}; {} given",
                      whole.fills.size(),
                      whole.stripe > 1 ? fmt::format(", with {} devices each", whole.stripe)
                                       : std::string(),
                      own.processes));
  const Position::Fill& fill = whole.fills[static_cast<std::size_t>(own.process)];
  return fill.is_none() ? std::vector<Position::Fill>{} : std::vector{fill};
}

/// The own stream of a process that gives its next sample.
std::uint32_t own_turn(const Position& whole, const Position& own) {
  const std::size_t takers = whole.turns.size();
  const bool same = takers == static_cast<std::size_t>(own.processes) &&
                    (takers == 1 || whole.stripe == own.stripe);
  if (same) return whole.turns[static_cast<std::size_t>(own.process)];
  require(is_in_step(whole),
          fmt::format("a stream ended before the others, and only the {} processes that read them "
                      "continue this epoch{}; {} given",
                      takers,
                      whole.stripe > 1 ? fmt::format(", with {} devices each", whole.stripe)
                                       : std::string(),
                      own.processes));
  return static_cast<std::uint32_t>(own.slots % static_cast<std::int64_t>(own.streams.size()));
}

}  // namespace

Position::Stream Position::Stream::exact() const {
  Stream same = *this;
  same.trails = nullptr;
  if (skip == 0 || !trails) return same;
  std::vector<const wds::StreamTrail*> blocks;
  for (const Trails* one = trails.get(); one != nullptr; one = one->before.get())
    blocks.push_back(one->last.get());
  std::ranges::reverse(blocks);
  auto position = start ? *start : wds::StreamPosition{};
  std::uint64_t left = skip;
  for (const wds::StreamTrail* block : blocks) {
    const auto samples = std::min<std::size_t>(left, block->size());
    block->advance(position, samples);
    left -= samples;
  }
  same.start = std::make_shared<const wds::StreamPosition>(std::move(position));
  same.skip = left;
  return same;
}

bool Position::Contents::differs_from(const Contents& other) const {
  const auto differ = [](const std::string& one, const std::string& another) {
    return !one.empty() && !another.empty() && one != another;
  };
  return differ(pieces, other.pieces) || differ(indexes, other.indexes);
}

std::uint64_t Position::Account::num_skipped() const {
  std::uint64_t samples = 0;
  for (const auto& [code, some] : skipped) samples += some;
  return samples;
}

Position::Account Position::account() const {
  Account account{.skipped = undecoded};
  std::uint64_t taken = 0;
  wds::LostSamples unread;
  for (const Stream& one : streams) {
    const Stream stream = one.exact();
    taken += stream.samples_out();
    unread += stream.lost.or_later(stream.start ? stream.start->lost : wds::LostSamples{});
  }
  for (const Fill& fill : fills) taken += static_cast<std::uint64_t>(fill.passed);
  account.emitted = taken - std::min(taken, account.num_skipped());
  account.unknown = unread.shards;
  if (const std::uint64_t lost = unread.samples + unread.shards; lost > 0)
    account.skipped[ErrorCode::kCorrupt] += lost;
  return account;
}

Position Position::joined(std::span<const Position> parts) {
  require(!parts.empty(), "no positions to join");
  const Position& most = *std::ranges::max_element(
      parts, {}, [](const Position& part) { return std::pair(!part.streams.empty(), part.slots); });
  Position all{.epoch = most.epoch,
               .slots = most.slots * static_cast<std::int64_t>(parts.size()),
               .fingerprint = most.fingerprint,
               .seed_processes = most.seed_processes,
               .order = most.order};
  if (most.streams.empty()) return all;
  if (parts.size() == 1) all.round = most.round;
  const auto known =
      std::ranges::find_if(parts, [](const Position& part) { return part.contents.is_known(); });
  if (known != parts.end()) all.contents = known->contents;
  require(parts.size() == 1 || most.round.taken == 0,
          "positions in the middle of a round are not joined: a process's position after a step "
          "is that of its last device's batch");
  const std::vector<Position> whole = whole_parts(parts, most);
  const auto processes = static_cast<int>(whole.size());
  all.streams.resize(most.streams.size() * whole.size());
  for (int process = 0; process < processes; ++process) {
    const std::vector<Stream>& own = whole[static_cast<std::size_t>(process)].streams;
    for (std::size_t i = 0; i < own.size(); ++i)
      all.streams[stream_number(i, process, processes, most.stripe)] = own[i];
  }
  all.turns.clear();
  for (const Position& part : whole) {
    all.turns.push_back(part.turns.front());
    for (const auto& [code, samples] : part.undecoded) all.undecoded[code] += samples;
  }
  const bool in_step =
      all.all_ended() || (none_ended(all) && std::ranges::all_of(whole, is_in_step));
  if (in_step)
    all.turns = {
        static_cast<std::uint32_t>(all.slots % static_cast<std::int64_t>(all.streams.size()))};
  all.fills = joined_fills(whole);
  if (all.turns.size() > 1 || all.fills.size() > 1) all.stripe = most.stripe;
  return all;
}

Position Position::share(const Topology& topology, int its_stripe) const {
  const bool is_own = process == topology.process && processes == topology.processes &&
                      turns.size() == 1 && fills.size() <= 1;
  if (is_own && (processes == 1 || stripe == its_stripe || streams.empty())) return *this;
  require(processes == 1,
          fmt::format("it is that of {} alone, not of {}", whose(process, processes, stripe),
                      whose(topology.process, topology.processes, its_stripe)));
  const auto count = static_cast<std::size_t>(topology.processes);
  Position own{.epoch = epoch,
               .process = topology.process,
               .processes = topology.processes,
               .stripe = its_stripe,
               .slots = (slots + topology.processes - 1) / topology.processes,
               .fingerprint = fingerprint,
               .seed_processes = seed_processes,
               .order = order,
               .contents = contents};
  if (streams.empty()) return own;
  require(round.taken == 0, "it stands in the middle of a round of batches");
  require(streams.size() % (count * static_cast<std::size_t>(its_stripe)) == 0,
          fmt::format("its {} streams do not divide among {} processes: {} do", streams.size(),
                      topology.processes, fmt::join(divisors(streams.size()), ", ")));
  require(slots % topology.processes == 0 || all_ended(),
          fmt::format("{} slots used do not divide among {} processes", slots, topology.processes));
  for (std::size_t i = 0; i < streams.size() / count; ++i)
    own.streams.push_back(
        streams[stream_number(i, topology.process, topology.processes, its_stripe)]);
  own.undecoded = own_losses(*this, topology);
  own.fills = own_fill(*this, own);
  own.turns = {own_turn(*this, own)};
  return own;
}

std::string Position::to_json() const {
  Json list = Json::array();
  for (std::size_t i = 0; i < streams.size(); ++i)
    list.push_back(to_value(streams[i], draws_of(*this, i)));
  Json value = {
      {"epoch", epoch}, {"process", process},         {"processes", processes},    {"slots", slots},
      {"turns", turns}, {"fingerprint", fingerprint}, {"streams", std::move(list)}};
  if (stripe > 1) value["stripe"] = stripe;
  if (seed_processes > 0) value["seed_processes"] = seed_processes;
  for (const auto& [code, samples] : undecoded)
    value["undecoded"][std::string(error_code_name(code))] = samples;
  if (order)
    for (const auto& [name, one] : *order) value["order"][name] = one;
  if (contents.is_known()) value["contents"] = to_value(contents);
  if (round.taken > 0)
    value["round"] = {
        {"taken", round.taken}, {"devices", round.devices}, {"batch_size", round.batch_size}};
  for (const Fill& fill : fills)
    value["fills"].push_back({{"passed", fill.passed},
                              {"batches", fill.batches},
                              {"devices", fill.devices},
                              {"batch_size", fill.batch_size}});
  return value.dump();
}

Position Position::from_json(const std::string& text) {
  try {
    return position_from(parse_json<Json>(text, "a pipeline's position"));
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kCorrupt, "a pipeline's position: " + fault_text(error));
  }
}

}  // namespace millrace::pipeline
