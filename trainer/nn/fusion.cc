#include "trainer/nn/fusion.h"

#include <algorithm>

namespace millrace::trainer::nn {
namespace {

constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

class Fuser {
 public:
  explicit Fuser(const Graph& graph)
      : graph_(graph), users_(graph.nodes().size()), taken_(graph.nodes().size(), false) {
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      for (const Value input : graph.nodes()[i].inputs) users_[input.node].push_back(i);
    }
    for (const GraphOutput& output : graph.outputs()) users_[output.value.node].push_back(kNobody);
  }

  std::vector<Group> run() {
    std::vector<Group> groups;
    for (std::size_t i = graph_.nodes().size(); i-- > 0;) {
      if (taken_[i] || std::holds_alternative<Input>(graph_.nodes()[i].layer)) continue;
      groups.push_back(ending_at(i));
    }
    std::ranges::reverse(groups);
    return groups;
  }

 private:
  template <typename T>
  bool is(std::size_t node) const {
    return std::holds_alternative<T>(graph_.nodes()[node].layer);
  }
  bool sole_use(std::size_t node) const { return users_[node].size() == 1 && !taken_[node]; }
  bool takes_relu(std::size_t node) const {
    return is<Conv2d>(node) || is<Linear>(node) || is<BatchNorm>(node) || is<Add>(node);
  }

  // Groups are found from the last node backwards, so that a group has its result's place in the
  // order.
  Group ending_at(std::size_t result) {
    Group group{.head = result, .residual = {}, .relu = false, .result = result};
    taken_[result] = true;
    if (is<Relu>(result)) {
      const std::size_t before = graph_.nodes()[result].inputs[0].node;
      if (!sole_use(before) || !takes_relu(before)) return group;
      group.relu = true;
      group.head = before;
      taken_[before] = true;
    }
    if (is<Add>(group.head)) absorb_addition(group);
    return group;
  }

  // An addition belongs to the batch norm before it; of two, to the one that is computed later.
  void absorb_addition(Group& group) {
    std::vector<Value> sides = graph_.nodes()[group.head].inputs;
    if (sides[0].node == sides[1].node) return;
    std::ranges::sort(sides, std::ranges::greater{}, &Value::node);
    for (std::size_t i = 0; i < 2; ++i) {
      if (!is<BatchNorm>(sides[i].node) || !sole_use(sides[i].node)) continue;
      group.head = sides[i].node;
      group.residual = sides[1 - i];
      taken_[group.head] = true;
      return;
    }
  }

  const Graph& graph_;
  std::vector<std::vector<std::size_t>> users_;
  std::vector<bool> taken_;
};

}  // namespace

std::vector<Group> fuse(const Graph& graph) { return Fuser(graph).run(); }

}  // namespace millrace::trainer::nn
