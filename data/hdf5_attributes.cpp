#include "data/hdf5_attributes.h"

#include <fmt/format.h>

#include "framework/base/error.h"

namespace lockstep::data::hdf5 {

namespace {

struct Attribute {
  Handle handle;
  Handle type;
  hssize_t count = 0;
  std::string where;
};

std::string place(const std::string& where, const std::string& name) {
  return where + ": attribute '" + name + "'";
}

std::optional<Attribute> open(hid_t object, const std::string& name, const std::string& where) {
  Attribute attribute;
  attribute.where = place(where, name);
  if (check(H5Aexists(object, name.c_str()), attribute.where) == 0) return std::nullopt;
  attribute.handle = Handle(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, attribute.where);
  attribute.type = Handle(H5Aget_type(attribute.handle.get()), H5Tclose, attribute.where);
  const Handle space(H5Aget_space(attribute.handle.get()), H5Sclose, attribute.where);
  attribute.count = check(H5Sget_simple_extent_npoints(space.get()), attribute.where);
  return attribute;
}

[[noreturn]] void refuse(const Attribute& attribute, const std::string& expected) {
  throw DataError(fmt::format("{}: found {} value(s) of type {}, expected {}", attribute.where,
                              attribute.count, describe_type(attribute.type.get()), expected));
}

Handle text_type(const std::string& what) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, what);
  check(H5Tset_size(type.get(), H5T_VARIABLE), what);
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), what);
  return type;
}

// Texts of variable length arrive as pointers that the library allocated.
std::vector<std::string> variable_texts(const Attribute& attribute) {
  std::vector<char*> pointers(static_cast<std::size_t>(attribute.count));
  check(H5Aread(attribute.handle.get(), attribute.type.get(), pointers.data()), attribute.where);
  std::vector<std::string> texts;
  for (char* pointer : pointers) {
    texts.emplace_back(pointer == nullptr ? "" : pointer);
    H5free_memory(pointer);
  }
  return texts;
}

// Texts of fixed length arrive one after the other, padded with zeros or blanks.
std::vector<std::string> fixed_texts(const Attribute& attribute) {
  const std::size_t length = H5Tget_size(attribute.type.get());
  const auto count = static_cast<std::size_t>(attribute.count);
  std::string bytes(count * length, '\0');
  check(H5Aread(attribute.handle.get(), attribute.type.get(), bytes.data()), attribute.where);
  const bool blanks = H5Tget_strpad(attribute.type.get()) == H5T_STR_SPACEPAD;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < count; ++i) {
    std::string text = bytes.substr(i * length, length);
    text.resize(std::min(text.find('\0'), text.size()));
    if (blanks) text.resize(text.find_last_not_of(' ') + 1);
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<std::string> texts_of(const Attribute& attribute) {
  const bool variable = check(H5Tis_variable_str(attribute.type.get()), attribute.where) > 0;
  return variable ? variable_texts(attribute) : fixed_texts(attribute);
}

void write(hid_t object, const std::string& name, hid_t type, const Handle& space,
           const void* values, const std::string& where) {
  const std::string what = place(where, name);
  const Handle attribute(
      H5Acreate2(object, name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
      what);
  check(H5Awrite(attribute.get(), type, values), what);
}

Handle scalar_space(const std::string& where) {
  return {H5Screate(H5S_SCALAR), H5Sclose, where};
}

Handle list_space(std::size_t count, const std::string& where) {
  const hsize_t extent = count;
  return {H5Screate_simple(1, &extent, nullptr), H5Sclose, where};
}

}  // namespace

std::optional<std::string> read_text(hid_t object, const std::string& name,
                                     const std::string& where) {
  const auto attribute = open(object, name, where);
  if (!attribute) return std::nullopt;
  if (H5Tget_class(attribute->type.get()) != H5T_STRING || attribute->count != 1) {
    refuse(*attribute, "one text");
  }
  return texts_of(*attribute).front();
}

std::optional<std::vector<std::string>> read_texts(hid_t object, const std::string& name,
                                                   const std::string& where) {
  const auto attribute = open(object, name, where);
  if (!attribute) return std::nullopt;
  if (H5Tget_class(attribute->type.get()) != H5T_STRING) refuse(*attribute, "texts");
  return texts_of(*attribute);
}

std::optional<std::int64_t> read_integer(hid_t object, const std::string& name,
                                         const std::string& where) {
  const auto attribute = open(object, name, where);
  if (!attribute) return std::nullopt;
  if (H5Tget_class(attribute->type.get()) != H5T_INTEGER || attribute->count != 1) {
    refuse(*attribute, "one integer");
  }
  std::int64_t value = 0;
  check(H5Aread(attribute->handle.get(), H5T_NATIVE_INT64, &value), attribute->where);
  return value;
}

std::optional<std::vector<double>> read_reals(hid_t object, const std::string& name,
                                              const std::string& where) {
  const auto attribute = open(object, name, where);
  if (!attribute) return std::nullopt;
  const H5T_class_t kind = H5Tget_class(attribute->type.get());
  if ((kind != H5T_FLOAT && kind != H5T_INTEGER) || attribute->count < 1) {
    refuse(*attribute, "numbers");
  }
  std::vector<double> values(static_cast<std::size_t>(attribute->count));
  check(H5Aread(attribute->handle.get(), H5T_NATIVE_DOUBLE, values.data()), attribute->where);
  return values;
}

void write_text(hid_t object, const std::string& name, const std::string& value,
                const std::string& where) {
  const char* text = value.c_str();
  write(object, name, text_type(where).get(), scalar_space(where), &text, where);
}

void write_texts(hid_t object, const std::string& name, std::span<const std::string> values,
                 const std::string& where) {
  std::vector<const char*> texts;
  for (const std::string& value : values) texts.push_back(value.c_str());
  write(object, name, text_type(where).get(), list_space(values.size(), where), texts.data(),
        where);
}

void write_integer(hid_t object, const std::string& name, std::int64_t value,
                   const std::string& where) {
  write(object, name, H5T_NATIVE_INT64, scalar_space(where), &value, where);
}

void write_reals(hid_t object, const std::string& name, std::span<const double> values,
                 const std::string& where) {
  write(object, name, H5T_NATIVE_DOUBLE, list_space(values.size(), where), values.data(), where);
}

std::string describe_type(hid_t type) {
  const std::size_t bits = 8 * H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return fmt::format("{}int{}", H5Tget_sign(type) == H5T_SGN_NONE ? "u" : "", bits);
    case H5T_FLOAT:
      return fmt::format("float{}", bits);
    case H5T_STRING:
      return "text";
    case H5T_COMPOUND:
      return "compound";
    case H5T_ENUM:
      return "enumeration";
    case H5T_ARRAY:
      return "array";
    case H5T_VLEN:
      return "variable-length list";
    default:
      return "another kind";
  }
}

}  // namespace lockstep::data::hdf5
