#include "device/pjrt/pjrt_device.h"

#include <algorithm>
#include <utility>

#include "device/detail/device_thread.h"

namespace millrace::device::pjrt {
namespace {

class PjrtDevice final : public Device {
 public:
  /// Device `place` of the client's.
  PjrtDevice(std::shared_ptr<const Client> client, std::size_t place, const std::string& kind)
      : client_(std::move(client)),
        place_(place),
        name_(kind + ":" + std::to_string(client_->devices()[place].id)),
        thread_(name_, [] {}) {}

  int index() const override { return static_cast<int>(client_->devices()[place_].id); }
  const std::string& name() const override { return name_; }
  std::future<void> submit(std::function<void()> work) override {
    return thread_.submit(std::move(work));
  }

  std::future<DeviceBatch> land(pipeline::Batch batch, const Landing& landing) override {
    auto landed = std::make_shared<LandedFields>();
    for (const pipeline::BatchField& field : batch.fields) {
      if (!landing.moves(field.name)) continue;
      landed->fields.push_back(
          {field.name, client_->copy_in(place_, {.spec = field.spec, .data = field.data})});
    }
    batch.landed = std::move(landed);
    std::promise<DeviceBatch> done;
    done.set_value(std::move(batch));
    return done.get_future();
  }

 private:
  std::shared_ptr<const Client> client_;
  std::size_t place_;
  std::string name_;
  DeviceThread thread_;
};

}  // namespace

const Buffer* LandedFields::find(std::string_view name) const {
  const auto known = std::ranges::find(fields, name, &Field::name);
  return known == fields.end() ? nullptr : &known->array;
}

DeviceSet pjrt_devices(const std::shared_ptr<const Client>& client, const std::string& name) {
  std::vector<std::shared_ptr<Device>> devices;
  for (std::size_t place = 0; place < client->devices().size(); ++place)
    devices.push_back(std::make_shared<PjrtDevice>(client, place, name));
  return DeviceSet(std::move(devices));
}

}  // namespace millrace::device::pjrt
