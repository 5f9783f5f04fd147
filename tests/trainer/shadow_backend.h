// ShadowBackend: the CPU's backend as if its memory were a device's. The handles that it returns
// are addresses of PROT_NONE pages; the values are elsewhere. Any access to a flat buffer past the
// backend ends the program.
#pragma once

#include <memory>
#include <string>

#include "tests/trainer/address_book.h"
#include "trainer/composed_backend.h"

namespace millrace::testing {

class ShadowBackend final : public trainer::ComposedBackend {
 public:
  const std::string& name() const override { return name_; }
  trainer::DeviceBuffer allocate(std::size_t floats) override {
    return book_.add({cpu_->allocate(floats)}, floats);
  }
  void write(std::span<const float> from, trainer::DeviceSpan to) override {
    cpu_->write(from, book_.find(to));
  }
  void read(trainer::DeviceSpan from, std::span<float> to) override {
    cpu_->read(book_.find(from), to);
  }
  void copy(trainer::DeviceSpan from, trainer::DeviceSpan to) override {
    cpu_->copy(book_.find(from), book_.find(to));
  }
  void swap(trainer::DeviceSpan a, trainer::DeviceSpan b) override {
    cpu_->swap(book_.find(a), book_.find(b));
  }
  void set_zero(trainer::DeviceSpan values) override { cpu_->set_zero(book_.find(values)); }
  void add(trainer::DeviceSpan into, trainer::DeviceSpan values) override {
    cpu_->add(book_.find(into), book_.find(values));
  }
  void average(trainer::DeviceSpan values, double count, trainer::Collectives& group) override {
    cpu_->average(book_.find(values), count, group);
  }
  void all_gather(trainer::DeviceSpan values, trainer::Collectives& group) override {
    cpu_->all_gather(book_.find(values), group);
  }
  void all_gather_rounded(trainer::DeviceSpan values, std::span<const trainer::ValueRange> rounded,
                          trainer::Collectives& group) override {
    cpu_->all_gather_rounded(book_.find(values), rounded, group);
  }
  std::unique_ptr<trainer::GradientReducer> make_reducer(
      trainer::DeviceSpan gradients, trainer::Collectives& group,
      const trainer::GradientReducerOptions& options) override {
    return cpu_->make_reducer(book_.find(gradients), group, options);
  }
  std::unique_ptr<trainer::nn::Plan> compile(const trainer::Model& model,
                                             const trainer::nn::PlanOptions& options,
                                             const trainer::PlanBuffers& buffers) override {
    return cpu_->compile(model, options,
                         {.parameters = book_.find(buffers.parameters),
                          .gradients = book_.find(buffers.gradients),
                          .buffers = book_.find(buffers.buffers)});
  }
  std::unique_ptr<trainer::Updater> make_updater(const trainer::UpdaterSetup& setup) override {
    trainer::UpdaterSetup inner = setup;
    for (trainer::DeviceSpan* span :
         {&inner.weights, &inner.ema, &inner.gradients, &inner.buffers, &inner.kept_buffers}) {
      *span = book_.find(*span);
    }
    for (trainer::DeviceSpan& state : inner.states) state = book_.find(state);
    return cpu_->make_updater(inner);
  }

 private:
  struct Storage {
    trainer::DeviceBuffer buffer;
    trainer::DeviceSpan part(std::size_t offset, std::size_t count) const {
      return buffer.span.subspan(offset, count);
    }
  };

  std::string name_ = "shadow";
  std::unique_ptr<trainer::ComposedBackend> cpu_ = trainer::make_cpu_backend();
  AddressBook<Storage> book_;
};

}  // namespace millrace::testing
