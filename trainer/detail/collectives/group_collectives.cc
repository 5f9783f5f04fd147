#include "trainer/detail/collectives/group_collectives.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>

#include "io/base/check.h"
#include "io/base/error.h"
#include "io/base/fault_text.h"
#include "trainer/detail/collectives/meeting_point.h"
#include "trainer/detail/collectives/partners.h"
#include "trainer/detail/collectives/rounded_wire.h"
#include "trainer/detail/collectives/sum_tree.h"

namespace millrace::trainer {

ValueRange Collectives::slice(std::size_t n, int rank) const {
  constexpr std::size_t kGrain = 16;
  const std::size_t grains = (n + kGrain - 1) / kGrain;
  const auto r = static_cast<std::size_t>(rank);
  const auto w = static_cast<std::size_t>(world());
  const auto bound = [&](std::size_t i) { return std::min(n, grains * i / w * kGrain); };
  return {bound(r), bound(r + 1)};
}

void Collectives::all_gather_rounded(std::span<float> values,
                                     std::span<const ValueRange> /*rounded*/) {
  all_gather(values);
}

namespace detail {
namespace {

using Bytes = std::vector<std::byte>;

// What one rank offers the others in a round. Rounds use two boards in turn: a rank can write for
// the third round only after all have reached the second one's rendezvous, and so are done with the
// first.
struct Offer {
  static constexpr std::size_t kInline = 512;  // bytes

  void* data = nullptr;
  std::size_t size = 0;
  alignas(64) std::array<std::byte, kInline> small;
};

template <typename Float, typename Byte>
std::span<Float> floats_of(std::span<Byte> bytes) {
  return {reinterpret_cast<Float*>(bytes.data()), bytes.size() / sizeof(Float)};
}

void to_bf16(std::span<const float> values, std::span<std::byte> into) {
  const ValueRange all{0, values.size()};
  RoundedWire({&all, 1}).pack(values, all, into);
}

void from_bf16(std::span<const std::byte> bytes, std::span<float> values) {
  const ValueRange all{0, values.size()};
  RoundedWire({&all, 1}).unpack(bytes, all, values);
}

std::vector<RankRange> single_ranks(int count) {
  std::vector<RankRange> ranks;
  ranks.reserve(static_cast<std::size_t>(count));
  for (int r = 0; r < count; ++r) ranks.push_back({r, r + 1});
  return ranks;
}

struct SharedGroup {
  explicit SharedGroup(const CollectivesSetup& given)
      : setup(given),
        topology(given.topology),
        point(topology.devices, given.options),
        offers(2 * static_cast<std::size_t>(topology.devices)),
        ranks(single_ranks(topology.world_size())) {
    for (int process = 0; process < topology.processes; ++process) {
      const int first = process * topology.devices;
      nodes.push_back(nodes_within({first, first + topology.devices}, topology.world_size()));
      all_nodes.insert(all_nodes.end(), nodes.back().begin(), nodes.back().end());
    }
    if (setup.cluster.sums == SumsBy::kTree || topology.processes == 1) return;
    for (int device = 0; device < topology.devices; ++device)
      sums.push_back(setup.transport->make_sums());
  }

  /// Whether partial sums of processes in pairs are the tree's own.
  bool has_partners() const {
    return Partners::fits(topology.processes) &&
           all_nodes.size() == static_cast<std::size_t>(topology.processes);
  }
  const std::vector<RankRange>& own_nodes() const {
    return nodes[static_cast<std::size_t>(topology.process)];
  }

  const CollectivesSetup setup;
  const Topology topology;
  std::vector<std::unique_ptr<TransportSums>> sums;  ///< by device; none for SumsBy::kTree
  MeetingPoint point;
  std::vector<Offer> offers;
  std::vector<RankRange> ranks;               ///< each by itself
  std::vector<std::vector<RankRange>> nodes;  ///< the nodes of the tree that each process sums
  std::vector<RankRange> all_nodes;           ///< the same, one process after the other
  std::vector<Bytes> gathered;                ///< by device 0, for the others
};

class GroupCollectives final : public Collectives {
 public:
  GroupCollectives(std::shared_ptr<SharedGroup> shared, int device)
      : shared_(std::move(shared)), topology_(shared_->topology), device_(device) {}

  int rank() const override { return topology_.first_rank() + device_; }
  int world() const override { return topology_.world_size(); }

  void all_reduce(std::span<float> values) override { all_reduce_any(values); }
  void all_reduce(std::span<double> values) override { all_reduce_any(values); }

  void reduce_scatter(std::span<float> values) override {
    if (world() == 1) return;
    offer_equal(values);
    is_rounding_ = shared_->setup.cluster.bf16_gradients;
    sum_slice(values);
    is_rounding_ = false;
    meet();
  }

  void all_gather(std::span<float> values) override {
    if (world() == 1) return;
    offer_equal(values);
    gather_slices(values);
    meet();
  }

  void all_gather_rounded(std::span<float> values, std::span<const ValueRange> rounded) override {
    if (!is_clustered() || transport_sums() != nullptr) return all_gather(values);
    offer_equal(values);
    gather_own_device_rounded(values, RoundedWire(rounded));
    meet();
    copy_slices(values);
    meet();
  }

  void broadcast(std::span<std::byte> data, int root) override {
    offer_equal(data);
    const int root_device = root % topology_.devices;
    if (is_clustered()) {
      if (device_ == root_device) pass_on(data, root / topology_.devices);
      meet();
    }
    if (device_ != root_device && !data.empty())
      std::memcpy(data.data(), offer_of(root_device).data, data.size());
    meet();
  }

  std::vector<Bytes> all_gather_bytes(std::span<const std::byte> data) override {
    offer(data.size(), const_cast<std::byte*>(data.data()));  // read only by the others
    meet();
    std::vector<Bytes> all;
    if (is_clustered()) {
      if (device_ == 0) shared_->gathered = gather_processes();
      meet();
      all = shared_->gathered;
    } else {
      for (int d = 0; d < topology_.devices; ++d) all.push_back(bytes_of(d));
    }
    meet();
    return all;
  }

  void barrier() override {
    meet();
    if (!is_clustered()) return;
    if (device_ == 0) meet_processes();
    meet();
  }

  void abort(const std::string& reason) noexcept override {
    shared_->point.abort(reason);
    if (shared_->setup.transport != nullptr) shared_->setup.transport->abort(reason);
  }

  std::chrono::nanoseconds peer_wait() const override {
    return std::chrono::nanoseconds(peer_wait_.load(std::memory_order_relaxed));
  }

 private:
  bool is_clustered() const { return topology_.processes > 1; }

  void meet() {
    const std::chrono::nanoseconds waited = shared_->point.meet(device_);
    peer_wait_.fetch_add(waited.count(), std::memory_order_relaxed);
  }

  // ---- within the process ----

  Offer& offer_of(int device) {
    const std::size_t board = round_ % 2 * static_cast<std::size_t>(topology_.devices);
    return shared_->offers[board + static_cast<std::size_t>(device)];
  }

  // Begins a round.
  Offer& offer(std::size_t size, void* data) {
    ++round_;
    num_scratch_ = 0;
    Offer& own = offer_of(device_);
    own.data = data;
    own.size = size;
    return own;
  }

  // Throws: InvalidArgument on every rank for sizes that differ.
  void meet_equal(std::size_t size) {
    meet();
    bool equal = true;
    for (int d = 0; d < topology_.devices; ++d) equal = equal && offer_of(d).size == size;
    if (equal) return;
    throw Error(ErrorCode::kInvalidArgument, "ranks called one collective with other sizes");
  }

  template <typename T>
  void offer_equal(std::span<T> values) {
    offer(values.size_bytes(), values.data());
    meet_equal(values.size_bytes());
  }

  /// Memory until the next round, which then has it again: fresh pages for megabytes take longer
  /// than a fast network.
  template <typename T>
  std::span<T> scratch(std::size_t count) {
    if (num_scratch_ == scratch_.size()) scratch_.emplace_back();
    Bytes& memory = scratch_[num_scratch_++];
    if (memory.size() < count * sizeof(T)) memory.resize(count * sizeof(T));
    return {reinterpret_cast<T*>(memory.data()), count};
  }

  template <typename T>
  const T* values_of(int device) {
    return static_cast<const T*>(offer_of(device).data);
  }

  Bytes bytes_of(int device) {
    const auto* from = values_of<std::byte>(device);
    return {from, from + offer_of(device).size};
  }

  /// The rank of this device in another process.
  int rank_in(int process) const { return process * topology_.devices + device_; }

  // into[i] = the sum over a node's ranks, all of this process, of what they offer at `at` + i.
  template <typename T>
  void sum_offers(RankRange node, std::size_t at, std::span<T> into) {
    std::vector<const T*> sources;
    for (int r = node.begin; r < node.end; ++r)
      sources.push_back(values_of<T>(r - topology_.first_rank()) + at);
    sum_tree(into, std::span(shared_->ranks).first(sources.size()), sources);
  }

  // Replaces this rank's slice of `values` by its sum over the ranks.
  template <typename T>
  void sum_slice(std::span<T> values) {
    const auto [begin, end] = slice(values.size(), rank());
    const std::span<T> own = values.subspan(begin, end - begin);
    if (!is_clustered()) return sum_offers({0, world()}, begin, own);
    sum_slice_of_processes(values.size(), begin, own);
  }

  // Copies every rank's slice to all ranks of this process.
  template <typename T>
  void gather_slices(std::span<T> values) {
    if (is_clustered()) gather_own_device(values);
    meet();
    copy_slices(values);
  }

  template <typename T>
  void copy_slices(std::span<T> values) {
    for (int r = 0; r < world(); ++r) {
      const T* from = values_of<T>(r % topology_.devices);
      if (from == values.data()) continue;  // this rank's own, or memory that they share
      const auto [begin, end] = slice(values.size(), r);
      std::copy(from + begin, from + end, values.data() + begin);
    }
  }

  template <typename T>
  void all_reduce_any(std::span<T> values) {
    if (world() == 1) return;
    if (values.size_bytes() <= Offer::kInline) return all_reduce_small(values);
    offer_equal(values);
    sum_slice(values);
    if (is_clustered()) meet();  // others may still read where slices are received
    gather_slices(values);
    meet();
  }

  // Each rank puts a copy on its board and sums all of them: one rendezvous instead of three.
  // Between processes device 0 does so, and puts the sum on its board.
  template <typename T>
  void all_reduce_small(std::span<T> values) {
    Offer& own = offer(values.size_bytes(), nullptr);
    own.data = own.small.data();
    if (!values.empty()) std::memcpy(own.small.data(), values.data(), values.size_bytes());
    meet_equal(values.size_bytes());
    if (!is_clustered()) return sum_offers({0, world()}, 0, values);
    if (device_ == 0) {
      sum_processes(values);
      if (!values.empty()) std::memcpy(own.small.data(), values.data(), values.size_bytes());
    }
    meet();
    if (device_ != 0 && !values.empty())
      std::memcpy(values.data(), offer_of(0).small.data(), values.size_bytes());
  }

  // ---- between processes ----

  // A fault of the transport ends this process's group too.
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) {
    if (is_rounding_) return exchange_rounded(outgoing, incoming);
    aborting([&] { shared_->setup.transport->exchange(outgoing, incoming); });
  }

  void exchange_rounded(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) {
    std::vector<Outgoing> sent;
    std::vector<Incoming> received;
    for (const Outgoing& one : outgoing) {
      const std::span<std::byte> packed = scratch<std::byte>(one.data.size() / 2);
      to_bf16(floats_of<const float>(one.data), packed);
      sent.push_back({one.process, one.tag, packed});
    }
    for (const Incoming& one : incoming)
      received.push_back({one.process, one.tag, scratch<std::byte>(one.data.size() / 2)});
    aborting([&] { shared_->setup.transport->exchange(sent, received); });
    for (std::size_t i = 0; i < incoming.size(); ++i)
      from_bf16(received[i].data, floats_of<float>(incoming[i].data));
  }

  template <typename Work>
  void aborting(const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      shared_->point.abort(error.message());
      throw;
    } catch (const std::exception& error) {
      shared_->point.abort(fault_text(error));
      throw;
    }
  }

  std::uint32_t tag() const {
    return shared_->setup.first_tag + static_cast<std::uint32_t>(device_);
  }

  /// The other processes.
  std::vector<int> others() const {
    std::vector<int> all;
    for (int process = 0; process < topology_.processes; ++process)
      if (process != topology_.process) all.push_back(process);
    return all;
  }

  // In log2(processes) rounds, each with the processes 1, 2, 4, ... numbers away: after the last
  // one everybody has heard, through others, of all.
  void meet_processes() {
    const int processes = topology_.processes;
    std::byte sent{};
    std::byte received{};
    for (int distance = 1; distance < processes; distance *= 2) {
      const Outgoing outgoing{(topology_.process + distance) % processes, tag(), {&sent, 1}};
      const Incoming incoming{
          (topology_.process + processes - distance) % processes, tag(), {&received, 1}};
      exchange(std::span(&outgoing, 1), std::span(&incoming, 1));
    }
  }

  void send_to_others(std::span<const std::byte> data) {
    std::vector<Outgoing> outgoing;
    for (const int process : others())
      outgoing.push_back({.process = process, .tag = tag(), .data = data});
    exchange(outgoing, {});
  }

  // Root's process sends, the others receive.
  void pass_on(std::span<std::byte> data, int root_process) {
    if (root_process == topology_.process) return send_to_others(data);
    const Incoming incoming{.process = root_process, .tag = tag(), .data = data};
    exchange({}, std::span(&incoming, 1));
  }

  // This process's sums of its nodes, one after the other. A single rank's are its values.
  template <typename T>
  std::span<const T> sum_own_nodes(std::size_t at, std::size_t count) {
    const auto& nodes = shared_->own_nodes();
    if (nodes.size() == 1 && nodes.front().size() == 1)
      return {values_of<T>(nodes.front().begin - topology_.first_rank()) + at, count};
    const std::span<T> sums = scratch<T>(nodes.size() * count);
    for (std::size_t i = 0; i < nodes.size(); ++i)
      sum_offers(nodes[i], at, sums.subspan(i * count, count));
    return sums;
  }

  std::size_t num_nodes(int process) const {
    return shared_->nodes[static_cast<std::size_t>(process)].size();
  }

  // Sends each other process sums_for(process), and receives as many sums of its nodes as this one
  // has in `own`, of into.size() values each; into = the sum over all nodes.
  template <typename T, typename SumsFor>
  void sum_with_others(std::span<const T> own, const SumsFor& sums_for, std::span<T> into) {
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    std::vector<const T*> sources;
    for (int process = 0; process < topology_.processes; ++process) {
      const T* from = own.data();
      if (process != topology_.process) {
        const std::span<T> place = scratch<T>(num_nodes(process) * into.size());
        outgoing.push_back({process, tag(), std::as_bytes(sums_for(process))});
        incoming.push_back({process, tag(), std::as_writable_bytes(place)});
        from = place.data();
      }
      for (std::size_t i = 0; i < num_nodes(process); ++i)
        sources.push_back(from + i * into.size());
    }
    exchange(outgoing, incoming);
    sum_tree(into, shared_->all_nodes, sources);
  }

  Partners partners() const { return {topology_.process, topology_.processes}; }

  void exchange_with(int process, std::span<const std::byte> sent, std::span<std::byte> place) {
    const Outgoing outgoing{process, tag(), sent};
    const Incoming incoming{process, tag(), place};
    exchange(std::span(&outgoing, 1), std::span(&incoming, 1));
  }
  auto exchanger() {
    return [this](int process, std::span<const std::byte> sent, std::span<std::byte> place) {
      exchange_with(process, sent, place);
    };
  }

  // This device's slices in all processes, as Partners has parts: part i is at [at[i], at[i + 1]).
  template <typename T>
  struct Parts {
    std::vector<ValueRange> slices;  ///< of the values
    std::vector<std::size_t> at{0};
    std::span<T> values;  ///< scratch
    std::size_t own = 0;

    std::span<T> part(std::size_t i) const { return values.subspan(at[i], at[i + 1] - at[i]); }
  };

  template <typename T>
  Parts<T> parts_of(std::size_t size, const std::function<int(std::size_t)>& process_at) {
    Parts<T> parts;
    for (std::size_t i = 0; i < static_cast<std::size_t>(topology_.processes); ++i) {
      const int process = process_at(i);
      if (process == topology_.process) parts.own = i;
      parts.slices.push_back(slice(size, rank_in(process)));
      parts.at.push_back(parts.at.back() + parts.slices[i].second - parts.slices[i].first);
    }
    parts.values = scratch<T>(parts.at.back());
    return parts;
  }

  template <typename T>
  Parts<T> parts_of_partners(std::size_t size) {
    return parts_of<T>(size, [&](std::size_t place) { return partners().process_at(place); });
  }
  Parts<float> parts_of_processes(std::size_t size) {
    return parts_of<float>(size, [](std::size_t place) { return static_cast<int>(place); });
  }

  TransportSums* transport_sums() {
    return shared_->sums.empty() ? nullptr : shared_->sums[static_cast<std::size_t>(device_)].get();
  }

  // This process's sum of each process's slice; the transport adds them up.
  void sum_slice_by_transport(std::size_t size, std::span<float> own) {
    const Parts<float> parts = parts_of_processes(size);
    for (std::size_t i = 0; i < parts.slices.size(); ++i) {
      const std::span<float> part = parts.part(i);
      const std::span<const float> nodes = sum_own_nodes<float>(parts.slices[i].first, part.size());
      std::ranges::fill(part, 0.0F);
      for (std::size_t k = 0; k < nodes.size(); ++k) part[k % part.size()] += nodes[k];
    }
    transport_sums()->reduce_scatter(parts.values, parts.at, own);
  }

  void gather_own_device_by_transport(std::span<float> values) {
    const Parts<float> parts = parts_of_processes(values.size());
    const auto [begin, end] = slice(values.size(), rank());
    transport_sums()->all_gather(values.subspan(begin, end - begin), parts.at, parts.values);
    for (std::size_t i = 0; i < parts.slices.size(); ++i)
      if (i != parts.own) std::ranges::copy(parts.part(i), values.begin() + place(parts.slices[i]));
  }
  static std::ptrdiff_t place(ValueRange slice) { return static_cast<std::ptrdiff_t>(slice.first); }

  template <typename T>
  void sum_slice_with_partners(std::size_t size, std::span<T> own) {
    const Parts<T> parts = parts_of_partners<T>(size);
    for (std::size_t i = 0; i < parts.slices.size(); ++i)
      sum_offers(shared_->own_nodes().front(), parts.slices[i].first, parts.part(i));
    partners().reduce_scatter(parts.values, parts.at, scratch<T>(parts.values.size()), exchanger());
    std::ranges::copy(parts.part(parts.own), own.begin());
  }

  template <typename T>
  void gather_own_device_with_partners(std::span<T> values) {
    const Parts<T> parts = parts_of_partners<T>(values.size());
    const auto slice_at = [&](std::size_t i) {
      return values.subspan(parts.slices[i].first, parts.part(i).size());
    };
    std::ranges::copy(slice_at(parts.own), parts.part(parts.own).begin());
    partners().all_gather(parts.values, parts.at, exchanger());
    for (std::size_t i = 0; i < parts.slices.size(); ++i)
      if (i != parts.own) std::ranges::copy(parts.part(i), slice_at(i).begin());
  }

  // Every process sums its nodes of each slice, and sends the sums to the slice's owner.
  template <typename T>
  void sum_slice_of_processes(std::size_t size, std::size_t begin, std::span<T> own) {
    if constexpr (std::is_same_v<T, float>)
      if (transport_sums() != nullptr) return aborting([&] { sum_slice_by_transport(size, own); });
    if (shared_->has_partners()) return sum_slice_with_partners(size, own);
    sum_with_others(
        sum_own_nodes<T>(begin, own.size()),
        [&](int process) {
          const auto [first, last] = slice(size, rank_in(process));
          return sum_own_nodes<T>(first, last - first);
        },
        own);
  }

  // Every process gets all nodes' sums, and adds them up itself.
  template <typename T>
  void sum_processes(std::span<T> values) {
    const std::span<const T> own = sum_own_nodes<T>(0, values.size());
    if (!shared_->has_partners())
      return sum_with_others(
          own, [&](int /*process*/) { return own; }, values);
    std::ranges::copy(own, values.begin());
    partners().sum(values, scratch<T>(values.size()), exchanger());
  }

  // Exchanges the slices of this device with all processes.
  template <typename T>
  void gather_own_device(std::span<T> values) {
    if constexpr (std::is_same_v<T, float>)
      if (transport_sums() != nullptr)
        return aborting([&] { gather_own_device_by_transport(values); });
    if (Partners::fits(topology_.processes)) return gather_own_device_with_partners(values);
    exchange_parts([&](std::size_t process) {
      const auto [begin, end] = slice(values.size(), rank_in(static_cast<int>(process)));
      return values.subspan(begin, end - begin);
    });
  }

  void gather_own_device_rounded(std::span<float> values, const RoundedWire& wire) {
    const bool has_partners = Partners::fits(topology_.processes);
    std::vector<ValueRange> slices;
    std::vector<std::size_t> at{0};
    std::size_t own = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(topology_.processes); ++i) {
      const int process = has_partners ? partners().process_at(i) : static_cast<int>(i);
      if (process == topology_.process) own = i;
      slices.push_back(slice(values.size(), rank_in(process)));
      at.push_back(at.back() + wire.bytes(slices.back()));
    }
    const std::span<std::byte> bytes = scratch<std::byte>(at.back());
    const auto part = [&](std::size_t i) { return bytes.subspan(at[i], at[i + 1] - at[i]); };
    wire.pack(values, slices[own], part(own));
    if (has_partners)
      partners().all_gather(bytes, at, exchanger());
    else
      exchange_parts(part);
    for (std::size_t i = 0; i < slices.size(); ++i)
      if (i != own) wire.unpack(part(i), slices[i], values);
  }

  // Gives every process the others' parts: part(i) is process i's.
  template <typename Part>
  void exchange_parts(const Part& part) {
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    for (const int process : others()) {
      const auto own = part(static_cast<std::size_t>(topology_.process));
      outgoing.push_back({process, tag(), std::as_bytes(own)});
      incoming.push_back(
          {process, tag(), std::as_writable_bytes(part(static_cast<std::size_t>(process)))});
    }
    exchange(outgoing, incoming);
  }

  /// Each process's number; `own` is this one's.
  std::vector<std::uint64_t> exchange_sizes(std::uint64_t own) {
    std::vector<std::uint64_t> sizes(static_cast<std::size_t>(topology_.processes), own);
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    for (const int process : others()) {
      outgoing.push_back({process, tag(), std::as_bytes(std::span(&own, 1))});
      incoming.push_back(
          {process, tag(),
           std::as_writable_bytes(std::span(sizes).subspan(static_cast<std::size_t>(process), 1))});
    }
    exchange(outgoing, incoming);
    return sizes;
  }

  // One device after the other, because the messages' sizes are exchanged first.
  std::vector<Bytes> gather_processes() {
    std::vector<Bytes> all(static_cast<std::size_t>(world()));
    for (int device = 0; device < topology_.devices; ++device) {
      const auto bytes_from = [&](int process) -> Bytes& {
        const int rank = process * topology_.devices + device;
        return all[static_cast<std::size_t>(rank)];
      };
      const Bytes own = bytes_of(device);
      const std::vector<std::uint64_t> sizes = exchange_sizes(own.size());
      std::vector<Outgoing> outgoing;
      std::vector<Incoming> incoming;
      for (const int process : others()) {
        Bytes& place = bytes_from(process);
        place.resize(sizes[static_cast<std::size_t>(process)]);
        outgoing.push_back({process, tag(), own});
        incoming.push_back({process, tag(), place});
      }
      exchange(outgoing, incoming);
      bytes_from(topology_.process) = own;
    }
    return all;
  }

  std::shared_ptr<SharedGroup> shared_;
  const Topology& topology_;  ///< of shared_
  int device_;
  std::uint64_t round_ = 0;
  std::vector<Bytes> scratch_;
  std::size_t num_scratch_ = 0;  ///< taken in this round
  bool is_rounding_ = false;     ///< messages are floats, to be sent as bf16
  std::atomic<std::int64_t> peer_wait_{0};
};

}  // namespace

std::vector<std::unique_ptr<Collectives>> make_group_collectives(const CollectivesSetup& setup) {
  MILLRACE_CHECK(setup.topology.devices > 0, "a group needs a rank");
  MILLRACE_CHECK(setup.topology.processes == 1 || setup.transport != nullptr,
                 "several processes need a transport");
  auto shared = std::make_shared<SharedGroup>(setup);
  std::vector<std::unique_ptr<Collectives>> group;
  group.reserve(static_cast<std::size_t>(setup.topology.devices));
  for (int device = 0; device < setup.topology.devices; ++device)
    group.push_back(std::make_unique<GroupCollectives>(shared, device));
  return group;
}

}  // namespace detail

std::vector<std::unique_ptr<Collectives>> make_thread_collectives(
    int world, const ThreadCollectivesOptions& options) {
  return detail::make_group_collectives({.topology = {.devices = world}, .options = options});
}

}  // namespace millrace::trainer
