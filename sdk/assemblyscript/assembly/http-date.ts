//! The date of an HTTP header, in the form that servers must send (RFC 9110, 5.6.7): `Sun, 06 Nov
//! 1994 08:49:37 GMT`.

const MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec";

/** Unix milliseconds of the date, or -1 if it is malformed. */
export function unixMsOf(date: string): i64 {
  if (date.length != 29 || !date.endsWith(" GMT") || date.substring(3, 5) != ", ") return -1;
  const month = MONTHS.indexOf(date.substring(8, 11));
  const day = number(date, 5, 2);
  const year = number(date, 12, 4);
  const hour = number(date, 17, 2);
  const minute = number(date, 20, 2);
  const second = number(date, 23, 2);
  const isDate = month >= 0 && month % 3 == 0 && day >= 1 && day <= 31 && year >= 1970;
  const isTime = hour >= 0 && hour < 24 && minute >= 0 && minute < 60 && second >= 0 && second <= 60;
  if (!isDate || !isTime) return -1;
  return 1000 * (86_400 * daysBefore(year, month / 3, day) + hour * 3_600 + minute * 60 + second);
}

/**
 * Days from 1970 to a date of the Gregorian calendar; months count from 0. The year starts in March
 * here, so that the leap day is its last.
 */
function daysBefore(year: i64, month: i64, day: i64): i64 {
  const fromMarch = (month + 10) % 12;
  if (month < 2) year--;
  const leaps = year / 4 - year / 100 + year / 400;
  return 365 * year + leaps + (153 * fromMarch + 2) / 5 + day - 1 - 719_468;
}

/** Parses digits as a number; returns -1 if they are not digits. */
function number(date: string, start: i32, length: i32): i64 {
  let value: i64 = 0;
  for (let i = start; i < start + length; i++) {
    const digit = date.charCodeAt(i) - 0x30;
    if (digit < 0 || digit > 9) return -1;
    value = 10 * value + digit;
  }
  return value;
}
