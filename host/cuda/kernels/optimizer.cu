// Updates of the parameters, with one thread per coordinate. Second moments are those of the gradient `squared`.

INLINE float mixed(float keep, float x, float take, float y) { return saturated(add(mul(keep, x), mul(take, y))); }

INLINE float square(float x) { return saturated(mul(x, x)); }

// SGD. Without momentum it does not read `moment`.
KERNEL update_sgd(float *params, const float *filtered, u64 dim, float rate, float momentum, u32 nesterov, float decay, float *moment) {
    u64 i = thread_number();
    if (i >= dim) {
        return;
    }
    float param = params[i], grad = saturated(add(filtered[i], mul(decay, param))), direction = grad;
    if (momentum != 0.0f) {
        float m = saturated(add(mul(momentum, moment[i]), grad));
        moment[i] = m;
        direction = nesterov ? saturated(add(grad, mul(momentum, m))) : m;
    }
    params[i] = saturated(sub(param, mul(rate, direction)));
}

// Adam. `denominator` is 0 for the sum of root and epsilon, 1 for their maximum, and 2 for the root of the moment minus `noise`, at least
// epsilon (DP-AdamBC).
KERNEL update_adam(float *params, const float *filtered, const float *squared, u64 dim, float keep, float rate, float scale, float beta1,
                   float new1, float beta2, float new2, u32 denominator, float epsilon, float noise, float *first, float *second) {
    u64 i = thread_number();
    if (i >= dim) {
        return;
    }
    float m = mixed(beta1, first[i], new1, filtered[i]);
    float v = mixed(beta2, second[i], new2, square(squared[i]));
    first[i] = m;
    second[i] = v;
    float moment = saturated(mul(v, scale)), divisor;
    if (denominator == 2) {
        float left = sub(moment, noise);
        divisor = root(left > epsilon ? left : epsilon);
    } else {
        float size = root(moment);
        divisor = denominator == 0 ? add(size, epsilon) : size > epsilon ? size : epsilon;
    }
    params[i] = saturated(sub(mul(keep, params[i]), saturated(div(mul(rate, m), divisor))));
}

// RMSprop. With `keep` and `take` 1 it is AdaGrad, whose sum is unweighted.
KERNEL update_scaled(float *params, const float *filtered, const float *squared, u64 dim, float rate, float keep, float take, float decay,
                     float epsilon, float *second) {
    u64 i = thread_number();
    if (i >= dim) {
        return;
    }
    float param = params[i], decayed = mul(decay, param);
    float direction = saturated(add(filtered[i], decayed)), grad = saturated(add(squared[i], decayed));
    float v = mixed(keep, second[i], take, square(grad));
    second[i] = v;
    params[i] = saturated(sub(param, saturated(div(mul(rate, direction), add(root(v), epsilon)))));
}

// Mean of the parameters over steps.
KERNEL average_params(const float *params, u64 dim, float share, float *mean) {
    u64 i = thread_number();
    if (i >= dim) {
        return;
    }
    float apart = saturated(sub(params[i], mean[i]));
    mean[i] = saturated(add(mean[i], saturated(mul(share, apart))));
}
