# Dates and times. A moment is days since 1970 and microseconds of the day; text that is not the common form
# (years of five digits, BC, infinity) is left to Python.

cdef enum:
    POSTGRES_DAYS = 10957

cdef extern from *:
    """
    #define DAY_US 86400000000LL
    #define POSTGRES_US 946684800000000LL
    #define INFINITE INT64_MAX
    #define MINUS_INFINITE INT64_MIN
    #define INFINITE_MS 9223372036825200LL
    #define MINUS_INFINITE_MS (-9223372036832400LL)
    """
    const int64_t DAY_US
    const int64_t POSTGRES_US
    const int64_t INFINITE
    const int64_t MINUS_INFINITE
    const int64_t INFINITE_MS
    const int64_t MINUS_INFINITE_MS

cdef struct Moment:
    int64_t days
    int64_t us

cdef inline int64_t floor_div(int64_t a, int64_t b) noexcept nogil:
    cdef int64_t q = a // b
    return q - 1 if a % b < 0 else q

cdef inline int64_t days_of(int64_t year, int month, int day) noexcept nogil:
    cdef int64_t era, year_of_era, day_of_year
    if month <= 2:
        year -= 1
    era = floor_div(year, 400)
    year_of_era = year - era * 400
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719468

cdef inline void civil_of(int64_t days, int64_t* year, int* month, int* day) noexcept nogil:
    cdef int64_t era, day_of_era, year_of_era, day_of_year, shifted
    days += 719468
    era = floor_div(days, 146097)
    day_of_era = days - era * 146097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month[0] = <int>(shifted + 3 if shifted < 10 else shifted - 9)
    day[0] = <int>(day_of_year - (153 * shifted + 2) // 5 + 1)
    year[0] = year_of_era + era * 400 + (1 if month[0] <= 2 else 0)

cdef inline int two_digits(const uint8_t* p, unsigned int* bad) noexcept nogil:
    """0..99; `bad` tells of anything that is no digit."""
    cdef unsigned int high = <unsigned int>p[0] - 48
    cdef unsigned int low = <unsigned int>p[1] - 48
    bad[0] |= (high > 9) | (low > 9)
    return <int>(high * 10 + low)

cdef inline bint get_day(const uint8_t* p, int* year, int* month, int* day) noexcept nogil:
    """`YYYY-MM-DD`, ten bytes."""
    cdef unsigned int bad = (p[4] != c"-") | (p[7] != c"-")
    year[0] = two_digits(p, &bad) * 100 + two_digits(p + 2, &bad)
    month[0] = two_digits(p + 5, &bad)
    day[0] = two_digits(p + 8, &bad)
    bad |= (<unsigned int>(month[0] - 1) > 11) | (<unsigned int>(day[0] - 1) > 30)
    return bad == 0

cdef inline bint get_date(const uint8_t* p, int64_t* days) noexcept nogil:
    """The same as days since 1970."""
    cdef int year = 0, month = 0, day = 0
    if not get_day(p, &year, &month, &day):
        return False
    days[0] = days_of(year, month, day)
    return True

cdef inline bint get_clock(const uint8_t* p, Py_ssize_t size, int64_t* us) noexcept nogil:
    """`HH:MM:SS[.f]` in exactly that many bytes; 24:00:00 and leap seconds are allowed."""
    cdef int hour, minute, second
    cdef unsigned int bad, digit
    cdef int64_t fraction = 0
    cdef Py_ssize_t i
    if size < 8 or size > 15 or size == 9:
        return False
    bad = (p[2] != c":") | (p[5] != c":")
    hour = two_digits(p, &bad)
    minute = two_digits(p + 3, &bad)
    second = two_digits(p + 6, &bad)
    bad |= (hour > 24) | (minute > 59) | (second > 60)
    if size > 8:
        bad |= p[8] != c"."
        for i in range(9, size):
            digit = <unsigned int>p[i] - 48
            bad |= digit > 9
            fraction = fraction * 10 + digit
        for i in range(size, 15):
            fraction *= 10
    us[0] = (<int64_t>hour * 3600 + minute * 60 + second) * 1000000 + fraction
    return bad == 0

cdef inline bint get_timestamp(const uint8_t* p, Py_ssize_t size, Moment* moment) noexcept nogil:
    """`YYYY-MM-DD HH:MM:SS[.f]`."""
    if size < 19 or p[10] != c" " or not get_date(p, &moment.days) or not get_clock(p + 11, size - 11, &moment.us):
        return False
    if moment.us >= DAY_US:
        moment.days += 1
        moment.us -= DAY_US
    return True

cdef inline int infinite(const uint8_t* p, Py_ssize_t size) noexcept nogil:
    """1 for `infinity`, -1 for `-infinity`, else 0."""
    if size == 8 and memcmp(p, b"infinity", 8) == 0:
        return 1
    if size == 9 and memcmp(p, b"-infinity", 9) == 0:
        return -1
    return 0

cdef inline int64_t saturated(i128 value) noexcept nogil:
    if value > <i128>INFINITE:
        return INFINITE
    if value < <i128>MINUS_INFINITE:
        return MINUS_INFINITE
    return <int64_t>value

cdef inline int64_t moment_us(Moment moment) noexcept nogil:
    return saturated(<i128>moment.days * DAY_US + moment.us)

cdef inline int64_t moment_ns(Moment moment) noexcept nogil:
    return saturated((<i128>moment.days * DAY_US + moment.us) * 1000)

cdef inline Moment postgres_moment(int64_t value) noexcept nogil:
    cdef Moment moment
    moment.days = floor_div(value, DAY_US)
    moment.us = value - moment.days * DAY_US
    moment.days += POSTGRES_DAYS
    return moment

cdef inline uint8_t* put_day(uint8_t* p, int64_t days) noexcept nogil:
    """LocalDate.toString, at most 16 bytes."""
    cdef int64_t year = 0
    cdef int month = 0, day = 0
    civil_of(days, &year, &month, &day)
    if year < 0:
        p[0] = c"-"
        p = put_unsigned(p + 1, -year) if year < -9999 else put_padded(p + 1, -year, 4)
    elif year > 9999:
        p[0] = c"+"
        p = put_unsigned(p + 1, year)
    else:
        p = put_padded(p, year, 4)
    p[0] = c"-"
    p = put_padded(p + 1, month, 2)
    p[0] = c"-"
    return put_padded(p + 1, day, 2)

cdef inline uint8_t* put_clock(uint8_t* p, int64_t us) noexcept nogil:
    """HH:MM:SS."""
    cdef int64_t seconds = us // 1000000
    p = put_padded(p, seconds // 3600, 2)
    p[0] = c":"
    p = put_padded(p + 1, seconds // 60 % 60, 2)
    p[0] = c":"
    return put_padded(p + 1, seconds % 60, 2)

cdef inline uint8_t* put_iso_time(uint8_t* p, int64_t us) noexcept nogil:
    """`HH:MM:SS[.f]Z` without trailing zeros of the fraction, at most 16 bytes."""
    us %= DAY_US
    p = put_clock(p, us)
    cdef int64_t fraction = us % 1000000
    if fraction:
        p[0] = c"."
        p = put_padded(p + 1, fraction, 6)
        while (p - 1)[0] == c"0":
            p -= 1
    p[0] = c"Z"
    return p + 1

cdef inline uint8_t* put_zoned(uint8_t* p, Moment moment, int digits) noexcept nogil:
    """`uuuu-MM-ddTHH:MM:SS[.f]Z` with exactly that many digits, at most 40 bytes."""
    p = put_day(p, moment.days)
    p[0] = c"T"
    p = put_clock(p + 1, moment.us)
    if digits:
        p[0] = c"."
        p = put_padded(p + 1, moment.us % 1000000, 6) - (6 - digits)
    p[0] = c"Z"
    return p + 1

cdef uint8_t MONTH_DAYS[13]
for _number, _days in enumerate((0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)):
    MONTH_DAYS[_number] = _days

cdef inline uint8_t* put_utc_text(uint8_t* p, const uint8_t* text, Py_ssize_t size, int digits) noexcept nogil:
    """A timestamptz in UTC as text, `YYYY-MM-DD HH:MM:SS[.f]+00`, copied into ISO form; NULL for anything else.

    Needs 40 bytes.
    """
    cdef int64_t us = 0
    cdef int year = 0, month = 0, day = 0
    cdef Py_ssize_t i
    size -= 3
    if size < 19 or text[size] != c"+" or text[size + 1] != c"0" or text[size + 2] != c"0" or text[10] != c" ":
        return NULL
    if not get_day(text, &year, &month, &day) or not get_clock(text + 11, size - 11, &us):
        return NULL
    # What needs carrying over, or is no day of its month, goes the long way.
    if us >= DAY_US or text[17] == c"6" or day > MONTH_DAYS[month]:
        return NULL
    memcpy(p, text, 10)
    p[10] = c"T"
    memcpy(p + 11, text + 11, 8)
    p += 19
    if digits:
        memcpy(p, b".000000", 7)
        if size > 20:
            for i in range(1, size - 19):
                p[i] = text[19 + i]
        p += digits + 1
    p[0] = c"Z"
    return p + 1
