// tanh(), softcap and GELU without overflow and without cancellation.
//
// The usual formula 1 - 2 / (exp(2 x) + 1) has no correct digit left for small x.

float smooth_tanh(float x)
{
    float a = abs(x), s = a * a, e = exp(-2.0 * a);
    float small = a * (1.0 + s * (-1.0 / 3.0 + s * (2.0 / 15.0 + s * (-17.0 / 315.0 +
                 s * (62.0 / 2835.0)))));
    return sign(x) * (a < 0.25 ? small : (1.0 - e) / (1.0 + e));
}

// cap * tanh(x / cap)
float smooth_cap(float x, float cap)
{
    return cap * smooth_tanh(x / cap);
}

// GELU by its tanh approximation: 0.5 x (1 + tanh(y)) is x / (1 + exp(-2 y)), with y = sqrt(2 / pi)
// (x + 0.044715 x^3).
float smooth_gelu(float x)
{
    return x / (1.0 + exp(-1.5957691216 * (x + 0.044715 * x * x * x)));
}
