// A value or the one line that says why there is none; nothing throws across module borders.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace monarch {

struct Error {
    std::string message;  // "what is wrong: what to do", one line, no trailing newline
};

template <typename T>
class Result {
  public:
    Result(T value) : v_(std::move(value)) {}
    Result(Error error) : v_(std::move(error)) {}
    bool ok() const { return v_.index() == 0; }
    explicit operator bool() const { return ok(); }
    T& value() { return std::get<0>(v_); }
    const T& value() const { return std::get<0>(v_); }
    T& operator*() { return value(); }
    const T& operator*() const { return value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }
    const std::string& error() const { return std::get<1>(v_).message; }

  private:
    std::variant<T, Error> v_;
};

struct Done {};
using Status = Result<Done>;

}  // namespace monarch
