// Choice: a component of a kind, as a value; Table: the components of a kind.
//
//   using Transform = Choice<TransformStep>;
//   std::vector<Transform> transforms = {RandomResizedCrop{.size = 160}, RandomErasing{}};
//
//   TableOf<TransformStep> table = standard_transforms();       // another program's
//   table.add<Speckle>();
//
// Threads: const, from any.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/component/component.h"

namespace millrace {

/// A component of any type. A value: cheap to copy, never changed.
class Component {
 public:
  struct Held {
    virtual ~Held() = default;
    virtual std::unique_ptr<Held> clone() const = 0;
    virtual const StructType& type() const = 0;
    virtual void* value() = 0;
  };
  explicit Component(std::unique_ptr<Held> held);
  // In the .cc: inlined into every program that holds one, g++ 12 takes a temporary's for
  // uninitialised.
  ~Component();
  Component(const Component& other);
  Component(Component&& other) noexcept;
  Component& operator=(const Component& other);
  Component& operator=(Component&& other) noexcept;

  const StructType& type() const { return held_->type(); }
  const void* value() const { return const_cast<Held&>(*held_).value(); }
  const Held& held() const { return *held_; }
  /// Null if this is none.
  template <Described T>
  const T* get_if() const {
    return &type() == &value_type(T()) ? static_cast<const T*>(value()) : nullptr;
  }
  bool operator==(const Component& other) const;

 private:
  std::shared_ptr<const Held> held_;
};

/// A component that makes a Behaviour: `Choice<TransformStep> transform = RandomErasing{};`
template <typename Behaviour>
class Choice : public Component {
 public:
  template <Described T>
  requires requires(const T& it) {
    { it.make() } -> std::same_as<std::unique_ptr<Behaviour>>;
  }
  Choice(T value) : Component(std::make_unique<Of<T>>(std::move(value))) {}  // NOLINT: a conversion
  /// Requires: a clone of a Choice of this kind.
  explicit Choice(Component component) : Component(std::move(component)) {}

  /// Throws: InvalidArgument, as StructType::check().
  std::unique_ptr<Behaviour> make() const {
    type().check(value());
    return static_cast<const Making&>(held()).make();
  }

 private:
  struct Making : Held {
    virtual std::unique_ptr<Behaviour> make() const = 0;
  };
  template <typename T>
  struct Of final : Making {
    explicit Of(T of) : it(std::move(of)) {}
    std::unique_ptr<Held> clone() const override { return std::make_unique<Of>(it); }
    const StructType& type() const override { return value_type(it); }
    void* value() override { return &it; }
    std::unique_ptr<Behaviour> make() const override { return it.make(); }
    T it;
  };
};

/// The components of a kind. Copy a table and add to it to extend it.
class Table {
 public:
  explicit Table(std::string kind) : kind_(std::move(kind)) {}

  const std::string& kind() const { return kind_; }
  const std::vector<Component>& all() const { return all_; }
  std::vector<std::string> words() const;
  /// By its word or its class in Python, in any case, with or without - and _. Throws: Mistake,
  /// with the nearest word.
  const Component& at(const Written& word) const;

 protected:
  /// Throws: InvalidArgument for a word or a field's name that is there already.
  void add(Component usual);

 private:
  std::string kind_;
  std::vector<Component> all_;
};

template <typename Behaviour>
class TableOf : public Table {
 public:
  using Table::Table;
  template <typename T>
  TableOf& add() {
    Table::add(Choice<Behaviour>(T()));
    return *this;
  }
};

}  // namespace millrace
