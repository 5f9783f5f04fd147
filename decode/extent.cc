#include "decode/extent.h"

#include <string>

namespace millrace::decode {
namespace {

using Kind = Written::Kind;

int side_of(const Written& from) {
  int side = 0;
  millrace::value_type(side).read(from, &side);
  return side;
}

/// "96x128" as two numbers.
Written two_sides(const Written& word) {
  const std::size_t x = word.text.find('x');
  if (word.kind != Kind::kWord || x == std::string::npos)
    throw Mistake(word, "must be a size: 224, or height and width: 96x128");
  Written pair{.kind = Kind::kList, .begin = word.begin, .end = word.end};
  for (const std::string& side : {word.text.substr(0, x), word.text.substr(x + 1)})
    pair.items.push_back(
        {.kind = Kind::kNumber, .text = side, .begin = word.begin, .end = word.end});
  return pair;
}

/// A T of one number means what its constructor makes of it.
template <typename T>
class SizeType final : public ValueType {
 public:
  void read(const Written& from, void* value) const override {
    T& size = *static_cast<T*>(value);
    if (from.kind == Kind::kNumber) {
      size = T(side_of(from));
    } else if (from.kind == Kind::kList) {
      if (from.items.size() != 2) throw Mistake(from, "must be a height and a width");
      size = T(side_of(from.items[0]), side_of(from.items[1]));
      if (size.height < 1 || size.width < 1) throw Mistake(from, "its sides are 1 or more");
    } else {
      read(two_sides(from), value);
    }
  }
  Written write(const void* value, Form /*form*/) const override {
    const T& size = *static_cast<const T*>(value);
    const auto side = [](int pixels) {
      return Written{.kind = Kind::kNumber, .text = std::to_string(pixels)};
    };
    if (size == T(size.height)) return side(size.height);
    return {.kind = Kind::kList, .items = {side(size.height), side(size.width)}};
  }
  std::string python() const override { return "int | tuple[int, int]"; }
  std::string shown() const override { return "N|HxW"; }
  std::vector<double> numbers(const void* value) const override {
    const T& size = *static_cast<const T*>(value);
    if (size == T(size.height)) return {static_cast<double>(size.height)};
    return {static_cast<double>(size.height), static_cast<double>(size.width)};
  }
};

int of_item(const Written& list, std::size_t i) { return side_of(list.items[i]); }

class SidesType final : public ValueType {
 public:
  void read(const Written& from, void* value) const override {
    Sides& sides = *static_cast<Sides*>(value);
    const std::size_t count = from.items.size();
    if (from.kind == Kind::kNumber)
      sides = side_of(from);
    else if (from.kind == Kind::kList && count == 2)
      sides = {of_item(from, 0), of_item(from, 1)};
    else if (from.kind == Kind::kList && count == 4)
      sides = {of_item(from, 0), of_item(from, 1), of_item(from, 2), of_item(from, 3)};
    else
      throw Mistake(from, "must be a number, or 2 or 4 in a list");
  }
  Written write(const void* value, Form /*form*/) const override {
    Written list{.kind = Kind::kList};
    const auto& [left, top, right, bottom] = *static_cast<const Sides*>(value);
    for (const int side : {left, top, right, bottom})
      list.items.push_back({.kind = Kind::kNumber, .text = std::to_string(side)});
    if (Sides(left, top) == Sides(left, top, right, bottom)) list.items.resize(2);
    return left == top && list.items.size() == 2 ? list.items.front() : list;
  }
  std::string python() const override {
    return "int | tuple[int, int] | tuple[int, int, int, int]";
  }
  std::string shown() const override { return "N|[N, N]|[N, N, N, N]"; }
  std::vector<double> numbers(const void* value) const override {
    const auto& [left, top, right, bottom] = *static_cast<const Sides*>(value);
    return {static_cast<double>(left), static_cast<double>(top), static_cast<double>(right),
            static_cast<double>(bottom)};
  }
};

class AnglesType final : public ValueType {
 public:
  void read(const Written& from, void* value) const override {
    Angles& angles = *static_cast<Angles*>(value);
    if (from.kind != Kind::kNumber) return interval().read(from, static_cast<Interval*>(&angles));
    double most = 0;
    millrace::value_type(most).read(from, &most);
    if (most < 0) throw Mistake(from, "is from -x to x degrees: 0 or more");
    angles = most;
  }
  Written write(const void* value, Form form) const override {
    const auto& angles = *static_cast<const Angles*>(value);
    if (angles == Angles(angles.to)) return millrace::value_type(angles.to).write(&angles.to, form);
    return interval().write(static_cast<const Interval*>(&angles), form);
  }
  std::string python() const override { return "float | tuple[float, float]"; }
  std::string shown() const override { return "X|X..X"; }
  std::vector<double> numbers(const void* value) const override {
    const auto& angles = *static_cast<const Angles*>(value);
    return {angles.from, angles.to};
  }

 private:
  static const ValueType& interval() { return millrace::value_type(Interval()); }
};

}  // namespace

const ValueType& value_type(const Sides& /*sides*/) {
  static const SidesType type;
  return type;
}

const ValueType& value_type(const Angles& /*angles*/) {
  static const AnglesType type;
  return type;
}

const ValueType& value_type(const Extent& /*size*/) {
  static const SizeType<Extent> type;
  return type;
}

const ValueType& value_type(const ResizeExtent& /*size*/) {
  static const SizeType<ResizeExtent> type;
  return type;
}

}  // namespace millrace::decode
